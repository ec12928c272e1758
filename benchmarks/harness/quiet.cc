#include "benchmarks/harness/quiet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace ffdl::bench {
namespace {

std::map<pid_t, ProcessTicks> all_processes() {
  std::map<pid_t, ProcessTicks> processes;
  std::error_code ignored;  // processes start and end meanwhile
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (auto ticks = parse_process_ticks(read_text(entry.path() / "stat"))) {
      processes[static_cast<pid_t>(std::stol(name))] = *ticks;
    }
  }
  return processes;
}

// Returns true if the parent holds the lock and has passed it on, as flock(1) does.
bool inherited_lock(int descriptor) {
  struct stat wanted{};
  if (fstat(descriptor, &wanted) != 0) return false;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int other = std::stoi(entry.path().filename());
    struct stat found{};
    if (other == descriptor || fstat(other, &found) != 0) continue;
    const bool same = found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino;
    if (same && flock(other, LOCK_EX | LOCK_NB) == 0) return true;
  }
  return false;
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();  // iterators over it throw exceptions
  return text.str();
}

std::optional<MachineTicks> parse_machine_ticks(std::string_view stat) {
  std::istringstream in{std::string(stat.substr(0, stat.find('\n')))};
  std::string label;
  uint64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  in >> label >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  if (!in || label != "cpu") return std::nullopt;
  return MachineTicks{user + nice + system + irq + soft + steal, idle + wait};
}

std::optional<ProcessTicks> parse_process_ticks(std::string_view stat) {
  const size_t name_end = stat.rfind(')');  // a process may have spaces and brackets in its name
  if (name_end == std::string_view::npos) return std::nullopt;
  std::istringstream in{std::string(stat.substr(name_end + 1))};
  std::string state, skipped;
  ProcessTicks process;
  in >> state >> process.parent;
  for (int i = 0; i < 9; ++i) in >> skipped;  // pgrp to cmajflt
  uint64_t user = 0, system = 0, children_user = 0, children_system = 0;
  in >> user >> system >> children_user >> children_system;
  if (!in) return std::nullopt;
  process.ticks = user + system + children_user + children_system;
  return process;
}

uint64_t tree_ticks(const std::map<pid_t, ProcessTicks>& processes, pid_t root) {
  std::set<pid_t> family = {root};
  for (bool grown = true; grown;) {  // a child may have a smaller id than its parent
    grown = false;
    for (const auto& [pid, process] : processes) {
      if (family.contains(process.parent) && family.insert(pid).second) grown = true;
    }
  }
  uint64_t ticks = 0;
  for (pid_t pid : family) {
    if (auto found = processes.find(pid); found != processes.end()) ticks += found->second.ticks;
  }
  return ticks;
}

double foreign_share(const CpuSample& before, const CpuSample& after) {
  const uint64_t busy = after.machine.busy - before.machine.busy;
  const uint64_t total = busy + after.machine.idle - before.machine.idle;
  const uint64_t own = after.own - before.own;
  if (total == 0 || own >= busy) return 0;
  return static_cast<double>(busy - own) / static_cast<double>(total);
}

CpuSample sample_cpu() {
  CpuSample sample;
  sample.machine = parse_machine_ticks(read_text("/proc/stat")).value_or(MachineTicks{});
  sample.own = tree_ticks(all_processes(), getpid());
  return sample;
}

Result<RunLock> RunLock::take(const std::string& path) {
  const auto failed = [&](const char* what) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("lock '{}': {} failed with '{}'; give another file with --lock", path,
                              what, std::strerror(errno)));
  };
  std::error_code ignored;  // open() reports the errors that matter
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return failed("open");
  RunLock lock(descriptor);
  if (inherited_lock(descriptor)) return lock;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  fmt::print(stderr, "lock '{}' is held by another run or build; waiting for it\n", path);
  while (flock(descriptor, LOCK_EX) != 0) {
    if (errno != EINTR) return failed("flock");
  }
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(other.descriptor_) {
  other.descriptor_ = -1;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace ffdl::bench
