#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// Checks that no other process used the machine during a measurement.
namespace ffdl::bench {

// The share of all processors used by others above which a figure is invalid.
inline constexpr double kForeignShareMax = 0.05;

// Clock ticks since boot over all processors. Time stolen by the hypervisor counts as busy.
struct MachineTicks {
  uint64_t busy = 0;
  uint64_t idle = 0;
};

// Clock ticks that one process has used, with those of the children that it has waited for.
struct ProcessTicks {
  pid_t parent = 0;
  uint64_t ticks = 0;
};

struct CpuSample {
  MachineTicks machine = {};
  uint64_t own = 0;  // of our process and all its descendants
};

// Returns the contents of a file, or the part that could be read: a process may end meanwhile.
std::string read_text(const std::filesystem::path& path);

// Pure: parse the first line of /proc/stat, and one line of /proc/<pid>/stat.
std::optional<MachineTicks> parse_machine_ticks(std::string_view stat);
std::optional<ProcessTicks> parse_process_ticks(std::string_view stat);

// Pure: returns the ticks of `root` and all its descendants.
uint64_t tree_ticks(const std::map<pid_t, ProcessTicks>& processes, pid_t root);

// Pure: returns the share of all processors, 0 to 1, that others used between the two samples.
double foreign_share(const CpuSample& before, const CpuSample& after);

CpuSample sample_cpu();

// The right to measure: an exclusive lock on a file. It keeps two runs, or a run and a build that
// takes the lock, from overlapping. Held until destruction. A lock that the parent holds on an
// inherited descriptor counts as ours. Blocks: take() until the lock is free; it says so on
// standard error.
class RunLock {
 public:
  static Result<RunLock> take(const std::string& path);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace ffdl::bench
