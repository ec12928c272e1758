#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// Whether the machine was ours alone while something was measured.
namespace ffdl::bench {

// More than this share of all processors used by others spoils a figure.
inline constexpr double kForeignShareMax = 0.05;

// Clock ticks since boot, all processors together. Time stolen by the hypervisor counts as busy.
struct MachineTicks {
  uint64_t busy = 0;
  uint64_t idle = 0;
};

// Clock ticks that one process, and those of its children that it has waited for, have used.
struct ProcessTicks {
  pid_t parent = 0;
  uint64_t ticks = 0;
};

struct CpuSample {
  MachineTicks machine = {};
  uint64_t own = 0;  // of our process and everything below it
};

// What a file holds; what can be read of it, when that fails: a process may end while we look.
std::string read_text(const std::filesystem::path& path);

// Pure: the first line of /proc/stat, and one line of /proc/<pid>/stat.
std::optional<MachineTicks> parse_machine_ticks(std::string_view stat);
std::optional<ProcessTicks> parse_process_ticks(std::string_view stat);

// Pure: the ticks of `root` and all its descendants.
uint64_t tree_ticks(const std::map<pid_t, ProcessTicks>& processes, pid_t root);

// Pure: the share of all processors, 0 to 1, that others used between the two samples.
double foreign_share(const CpuSample& before, const CpuSample& after);

CpuSample sample_cpu();

// The right to measure: an exclusive lock on a file, so that two runs, or a run and a build that
// takes the lock, never overlap. Held until destruction. A lock that our starter holds on a
// descriptor that we inherited is ours already. Blocks: take() until the lock is free; it says so
// on standard error.
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
