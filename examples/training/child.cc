#include "training/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace training {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;

Status system_error(const std::string& what, int error) {
  return Status(StatusCode::kUnavailable,
                fmt::format("{}: {}; try again with fewer processes", what, std::strerror(error)));
}

// The settings of one posix_spawn: output into `pipe`, no input, and no blocked signals. The
// process has a group of its own, so that the terminal's interrupt reaches the supervisor alone.
class SpawnSettings {
 public:
  explicit SpawnSettings(int pipe) {
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, pipe, STDOUT_FILENO);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_t files{};
};

// Uses syscall(), since glibc 2.36 declares its pidfd_open() for C alone.
int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::string ExitStatus::to_string() const {
  if (signal != 0) return fmt::format("ended by signal {} ({})", signal, strsignal(signal));
  return fmt::format("ended with exit code {}", code);
}

Child::Child(pid_t pid, Descriptor exit, Descriptor output)
    : pid_(pid), exit_(std::move(exit)), output_(std::move(output)) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      exit_(std::move(other.exit_)),
      output_(std::move(other.output_)),
      unfinished_line_(std::move(other.unfinished_line_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_, other.exit_);
  std::swap(output_, other.output_);
  std::swap(unfinished_line_, other.unfinished_line_);
  return *this;
}

Child::~Child() {
  if (pid_ == 0) return;
  signal(SIGKILL);
  reap();
}

Result<Child> Child::start(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return system_error("make a pipe", errno);
  Descriptor output(ends[0]);
  const Descriptor input(ends[1]);
  // The child's writes wait for space; O_NONBLOCK applies to this end alone.
  fcntl(input.number(), F_SETFL, 0);

  std::string program = program_invocation_short_name;
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const SpawnSettings settings(input.number());
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &settings.files, &settings.attributes,
                                argv.data(), environ);
  if (error != 0) return system_error(fmt::format("start '{}'", arguments.front()), error);
  Child child(pid, Descriptor(open_process(pid)), std::move(output));
  if (child.exit_descriptor() < 0) return system_error("watch a process", errno);
  return child;
}

void Child::signal(int number) const {
  if (pid_ != 0) kill(pid_, number);
}

std::vector<std::string> Child::take_lines() {
  std::array<char, 4096> chunk{};
  ssize_t count = 0;
  while ((count = read(output_.number(), chunk.data(), chunk.size())) > 0) {
    unfinished_line_.append(chunk.data(), static_cast<std::size_t>(count));
  }
  // After its end a pipe stays readable for ever.
  if (count == 0) output_ = Descriptor();

  std::vector<std::string> lines;
  std::size_t end = 0;
  while ((end = unfinished_line_.find('\n')) != std::string::npos) {
    lines.push_back(unfinished_line_.substr(0, end));
    unfinished_line_.erase(0, end + 1);
  }
  return lines;
}

ExitStatus Child::reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  exit_ = Descriptor();
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status)};
}

void follow_parent(pid_t parent, int signal) {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) raise(signal);
}

}  // namespace training
