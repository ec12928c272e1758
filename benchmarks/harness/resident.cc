#include "benchmarks/harness/resident.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

namespace ffdl::bench {

using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Resident>> Resident::start(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Status(StatusCode::kExhausted, fmt::format("start '{}': {}; close some files",
                                                      command[0], std::strerror(errno)));
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int failure =
      posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    return Status(StatusCode::kNotFound, fmt::format("start '{}': {}; is it installed?", command[0],
                                                     std::strerror(failure)));
  }
  return std::unique_ptr<Resident>(new Resident(pid, ends[0]));
}

Result<std::unique_ptr<Resident>> Resident::start_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return start(command);
}

Resident::~Resident() {
  shutdown(channel_, SHUT_WR);
  for (auto until = Clock::now() + std::chrono::seconds(10); pid_ != 0 && Clock::now() < until;) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = 0;
    if (pid_ != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (pid_ != 0) {
    kill_now();
    reap();
  }
  close(channel_);
}

Status Resident::lost(const char* doing) const {
  return {StatusCode::kPeerLost,
          fmt::format("{} process '{}': it has ended; its error output says why", doing, pid_)};
}

Status Resident::tell(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t sent = send(channel_, text.data(), text.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(text.size()) ? Status() : lost("write to");
}

Result<std::string> Resident::ask(const std::string& line, std::chrono::seconds patience) {
  const auto until = Clock::now() + patience;
  if (!line.empty()) FFDL_RETURN_IF_ERROR(tell(line));
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string answer = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return answer;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd waiting{channel_, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&waiting, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return Status(StatusCode::kTimeout,
                    fmt::format("ask process '{}': no answer to '{}' within {} s", pid_, line,
                                patience.count()));
    }
    std::array<char, 4096> bytes{};
    const ssize_t got = read(channel_, bytes.data(), bytes.size());
    if (got <= 0) return lost("read from");
    unread_.append(bytes.data(), static_cast<size_t>(got));
  }
}

Result<double> Resident::ask_number(const std::string& line) {
  FFDL_ASSIGN_OR_RETURN(const std::string answer, ask(line));
  char* end = nullptr;
  const double value = std::strtod(answer.c_str(), &end);
  if (end != answer.c_str() && *end == '\0') return value;
  return Status(StatusCode::kInternal,
                fmt::format("ask process '{}': '{}' is not a number but the answer to '{}'", pid_,
                            answer, line));
}

void Resident::kill_now() const {
  if (pid_ != 0) kill(pid_, SIGKILL);
}

void answer(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void wait_for_the_end() {
  answer("ready");
  for (std::string line; std::getline(std::cin, line);) {
  }
}

void Resident::reap() {
  if (pid_ != 0) waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace ffdl::bench
