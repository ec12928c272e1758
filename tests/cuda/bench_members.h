#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ffdl/comm/communicator.h"
#include "ffdl/status.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl::bench {

// An order that the processes of some rows execute, all at once. Each process is a rank, and has
// two places for communicators. Sent as raw bytes.
struct Order {
  enum class Task : int32_t {
    kConnect,   // makes the communicator of `place`
    kContinue,  // continues from the communicator in the other place
    kSum,       // calls all_reduce `calls` times
    kLose,      // calls all_reduce until the last rank aborts in the middle of it
    kClose,     // ends the communicator of `place`
    kEnd,       // ends both, and the process
  };

  Task task = Task::kEnd;
  int32_t ranks = 0;  // ranks below this number take part; 0: all
  int32_t place = 0;
  Backend backend = Backend::kNccl;          // kConnect
  GpuWorlds gpu_worlds = GpuWorlds::kFresh;  // kConnect
  int32_t must_derive = 0;                   // kContinue: fails if NCCL connects anew
  int32_t calls = 1;                         // kSum
  int32_t reserved = 0;
  uint64_t bytes = 0;       // kSum, kLose: of float32, in the GPU's memory
  uint64_t generation = 0;  // Members::tell() counts them
};

// Starts a process of this program for each rank. The process that measures is no rank, so that
// NCCL starts fresh in each. Their environment fits the number of GPUs.
// Threads: one. Owns: the processes, which end with it.
class Members {
 public:
  // Starts the processes; rank r uses GPU r % `gpus`. Errors: kTimeout (a process has not
  // connected: with its output).
  static Result<std::unique_ptr<Members>> start(int ranks, int gpus);
  ~Members();

  // Sends the order to all processes. Returns the seconds of the slowest rank. Errors: the error of
  // the first rank that failed, with its number; kPeerLost (a process has ended: with the output of
  // all).
  Result<double> tell(Order order);

 private:
  explicit Members(int ranks);
  std::string outputs() const;

  const TempFolder folder_;
  const int ranks_;
  uint64_t generation_ = 0;
  std::vector<std::unique_ptr<StartedProgram>> processes_;
  std::unique_ptr<Communicator> control_;  // connects all of them, and this process as rank 0
};

inline constexpr const char* kMemberOption = "--member";
// Runs such a process and returns its exit code. `arguments` are those after kMemberOption.
int run_member(int count, char** arguments);

}  // namespace ffdl::bench
