#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/membership.h"
#include "support/sanitized.h"

// Declares the jobs of end_kill_test: their options, and the disturbances of their ends.
namespace ffdl::end_kill {

inline constexpr int kLivesMax = 24;  // processes of one job
inline constexpr std::string_view kJobName = "ended";
// A member that is stopped for longer drops its state. Under a sanitizer a store may answer late.
inline constexpr Duration kFence = std::chrono::seconds(FFDL_IS_SANITIZED ? 10 : 3);
// Longer than the longest stop of the store's server. Who opens the store meanwhile waits for it.
inline constexpr Duration kStoreWait = kFence + std::chrono::seconds(2);

struct JobOptions {
  std::string folder{};
  int members = 2;
  int min_workers = 1;
  Recovery recovery = Recovery::kForward;
  bool has_checkpoints = false;
  bool at_end = true;
  uint64_t every_steps = 0;  // 0: only at the end
  uint64_t bucket_bytes = 0;
  uint64_t samples = 200;
  uint64_t epochs = 1;
  Duration lease{};
  Duration step_time{};  // the longest gradient

  // A process that opens after the end finds the last state.
  bool keeps_end() const { return has_checkpoints && at_end; }
  std::string describe() const;
};

LedgerOptions data_of(const JobOptions& options);

enum class Kind {
  kKill,        // one member
  kKillMost,    // all but one
  kKillServer,  // the process that serves the store
  kKillAll,     // the state is lost unless a checkpoint has it
  kStop,        // for longer than the lease
  kStopLong,    // for longer than the fence
  kLeave,
  kNewcomer,
};

// The earliest time of a disturbance. The delay follows.
enum class Moment {
  kLastSteps,    // `committed` samples are committed
  kInFinish,     // one member has called finish()
  kAfterFinish,  // finish() of one member has returned
  kAllAreEnded,  // no process of the job is left
};

enum class Again { kNever, kSoon, kAfterLease, kAfterEnd };

struct Disturbance {
  Kind kind = Kind::kKill;
  Moment moment = Moment::kLastSteps;
  uint64_t committed = 0;  // for kLastSteps
  Duration delay{};
  Duration stop_time{};         // for kStop, kStopLong
  Again again = Again::kNever;  // the restart of a killed member
  Duration again_delay{};
  bool is_reported = false;  // the death is reported, as by a launcher
};

struct Plan {
  JobOptions options{};
  std::vector<Disturbance> disturbances{};
};

// Draws the plan of a seed, always the same one.
Plan draw_plan(uint64_t seed);

// The exit code of a process.
enum ExitCode { kFinished = 0, kWrong = 1, kLeft = 10, kCancelled = 11, kJobDone = 12 };

// The stage of a member's program.
enum class Stage : uint32_t { kOpening, kTraining, kFinishing, kFinished };

// The report of a process to its parent.
struct Life {
  std::atomic<Stage> stage;
  std::atomic<uint64_t> steps;       // steps of this process, since its last stop
  std::atomic<uint64_t> generation;  // generation of the last step
  std::atomic<uint64_t> committed;   // samples, over all epochs
  std::atomic<uint64_t> incarnation;
  std::atomic<Time::rep> began;     // the begin of kTraining; 0: not yet
  std::atomic<uint64_t> applied;    // gradients
  std::atomic<uint64_t> last_step;  // last step in kFinished
  std::atomic<uint64_t> last_hash;
  std::atomic<uint64_t> went_back;  // finish() returned kWorldChanged
  std::atomic<bool> must_leave;
};

struct Start {
  std::string id{};
  bool is_late = false;  // finish() of another member has returned
  uint64_t seed = 0;
  std::optional<JobEnvironment> environment{};  // environment of a worker of `ffdl run`
};

// Trains as a member of the job until its end. Writes its logs into the folder.
ExitCode run_member(const JobOptions& options, const Start& start, Life& life);

// The prefix of files with the world's record after each write by one process.
inline constexpr std::string_view kWorldsPrefix = "worlds-";
inline constexpr std::string_view kLogPrefix = "log-";

// Returns the time that all logs of a job use, in ms.
inline std::string log_time() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace ffdl::end_kill
