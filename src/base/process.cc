#include "base/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace ffdl::base {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find(at, begin)) != text.npos; begin = end + 1) {
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

// Returns the start time of a process in ticks since the boot. Takes its number in the namespace of
// /proc, or "self". Empty: /proc does not provide it.
std::string start_of(std::string_view process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // the name may contain any characters
  if (name_end == text.npos) return {};
  const auto fields = split(std::string_view(text).substr(name_end + 1), ' ');
  constexpr size_t kStart = 19;  // field 22 of proc(5); two of its fields precede the ')'
  return fields.size() > kStart ? std::string(fields[kStart]) : std::string();
}

// Returns the number of a process in the namespace of /proc, which is not always this process's
// own. Takes a descriptor of the process. Empty: it is unknown there.
std::string number_in_proc(int pidfd) {
  constexpr std::string_view kField = "Pid:\t";
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", pidfd));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kField)) return line.substr(kField.size());
  }
  return {};
}

// Returns the namespaces that give processes their numbers and start times, and the id of this boot
// of the machine: "PID-TIME-BOOT". The first namespaces have the same numbers on all machines. TIME
// is 0 on a kernel without time namespaces. Empty: /proc does not provide the others.
std::string number_space() {
  struct stat numbers {};
  struct stat times {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (::stat("/proc/self/ns/pid", &numbers) != 0 || !std::getline(file, boot)) return {};
  const bool has_times = ::stat("/proc/self/ns/time", &times) == 0;
  return fmt::format("{}-{}-{}", numbers.st_ino, has_times ? times.st_ino : 0, boot);
}

std::optional<pid_t> number_of(std::string_view text) {
  pid_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_one = error == std::errc() && end == text.data() + text.size() && value > 0;
  return is_one ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string mark_of_this_process() {
  const std::string start = start_of("self");
  const std::string space = number_space();
  if (start.empty() || space.empty()) return {};
  return fmt::format("{}:{}:{}", ::getpid(), start, space);
}

std::optional<ProcessWatch> ProcessWatch::of(std::string_view mark) {
  const auto parts = split(mark, ':');
  if (parts.size() != 3 || parts[2] != number_space()) return std::nullopt;
  const auto process = number_of(parts[0]);
  if (!process) return std::nullopt;
  const int opened = static_cast<int>(::syscall(SYS_pidfd_open, *process, 0));
  if (opened < 0 && errno == ESRCH) return ProcessWatch(*process);
  ForkPrivateFd end(opened);
  if (!end.valid()) return std::nullopt;
  // The start time is read after the descriptor was opened, which now refers to one fixed process.
  const std::string start = start_of(number_in_proc(end.get()));
  if (start == parts[1]) return ProcessWatch(*process, std::move(end));
  pollfd ready = {end.get(), POLLIN, 0};
  const bool has_ended = ::poll(&ready, 1, 0) > 0;
  if (start.empty() && !has_ended) return std::nullopt;  // /proc hides it
  return ProcessWatch(*process);
}

bool ProcessWatch::is_gone() const {
  if (had_ended_) return true;
  if (!end_.valid()) return false;  // in a fork
  pollfd ready = {end_.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

bool has_process_ended(std::string_view mark) {
  const auto process = ProcessWatch::of(mark);
  return process && process->is_gone();
}

pid_t lock_holder(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return 0;
  const std::string inode =
      fmt::format("{:02x}:{:02x}:{}", major(found.st_dev), minor(found.st_dev), found.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // A line is "1: FLOCK  ADVISORY  WRITE 14291 fe:00:2146480 0 EOF". "1: -> ..." waits for that
    // lock.
    const auto fields = split(line, ' ');
    if (fields.size() < 6 || fields[1] != "FLOCK" || fields[5] != inode) continue;
    return number_of(fields[4]).value_or(0);
  }
  return 0;
}

std::string describe_lock_holder(int fd) {
  const pid_t holder = lock_holder(fd);
  return holder > 0 ? fmt::format("process {}", holder) : "another process";
}

}  // namespace ffdl::base
