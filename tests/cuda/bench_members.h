#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ffdl/communicator.h"
#include "ffdl/status.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl::bench {

// What the processes of some rows do, all at once. Each is a rank, and has two places for
// communicators. Sent as it is.
struct Order {
  enum class Task : int32_t {
    kConnect,   // makes the communicator of `place`
    kContinue,  // continue_from() what is in the other place
    kSum,       // all_reduce, `calls` times
    kLose,      // all_reduce until the last of the ranks aborts in the middle of it
    kClose,     // ends the communicator of `place`
    kEnd,       // ends both, and the process
  };

  Task task = Task::kEnd;
  int32_t ranks = 0;  // those below take part; 0: all
  int32_t place = 0;
  Backend backend = Backend::kNccl;         // kConnect
  GpuWorlds gpu_worlds = GpuWorlds::kAnew;  // kConnect
  int32_t must_derive = 0;                  // kContinue: fails where NCCL connects anew
  int32_t calls = 1;                        // kSum
  int32_t reserved = 0;
  uint64_t bytes = 0;       // kSum, kLose: of float32, in the GPU's memory
  uint64_t generation = 0;  // Members::tell() counts them
};

// This program, started once more for each rank; the one that measures is none of them, so that
// NCCL begins anew in each, with an environment for as many GPUs as there are.
// Threads: one. Owns: the processes, which end with it.
class Members {
 public:
  // Rank r has GPU r % `gpus`. Errors: kTimeout (one has not come: with what it wrote).
  static Result<std::unique_ptr<Members>> start(int ranks, int gpus);
  ~Members();

  // Seconds, of the rank that took the longest. Errors: that of the first rank that has one, with
  // its number; kPeerLost (a process has ended: with what they wrote).
  Result<double> tell(Order order);

 private:
  explicit Members(int ranks);
  std::string outputs() const;

  const TempFolder folder_;
  const int ranks_;
  uint64_t generation_ = 0;
  std::vector<std::unique_ptr<StartedProgram>> processes_;
  std::unique_ptr<Communicator> control_;  // of all of them, and this one as rank 0
};

inline constexpr const char* kMemberOption = "--member";
// The main of such a process; `arguments` are those behind kMemberOption. The exit code.
int run_member(int count, char** arguments);

}  // namespace ffdl::bench
