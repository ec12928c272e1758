#include "benchmarks/hosts/laboratory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include "benchmarks/harness/folder.h"
#include "benchmarks/hosts/rank.h"

namespace ffdl::bench {
namespace {

constexpr const char* kCongestionControl = "/proc/sys/net/ipv4/tcp_congestion_control";
constexpr auto kTurnMax = std::chrono::minutes(10);

// Reads a line that another process writes at once. Returns none at the end of the pipe.
std::optional<std::string> read_line(int pipe) {
  std::string line;
  char byte = 0;
  while (read(pipe, &byte, 1) == 1) {
    if (byte == '\n') return line;
    line += byte;
  }
  return std::nullopt;
}

bool write_line(int pipe, const std::string& line) {
  const std::string text = line + "\n";
  return write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// The process that serves a Laboratory: it passes each line to all ranks, and the answer on.
class LaboratoryServer {
 public:
  explicit LaboratoryServer(const LaboratoryOptions& options) : options_(options) {}

  int run() {
    hosts_ = testing::Hosts::make(options_.hosts, options_.link);
    const auto folder = make_folder();
    if (hosts_ == nullptr || !folder.ok() || pipe2(answers_.data(), O_CLOEXEC) != 0) return 1;
    const int code = serve(*folder);
    hosts_.reset();
    std::filesystem::remove_all(*folder);
    return code;
  }

 private:
  int serve(const std::string& folder) {
    for (int host = 0; host < options_.hosts; ++host) {
      if (!choose_congestion_control(host)) return 1;
    }
    for (int rank = 0; rank < options_.hosts * options_.ranks_per_host; ++rank) {
      std::array<int, 2> commands{};
      if (pipe2(commands.data(), O_CLOEXEC) != 0) return 1;
      commands_.push_back(commands[1]);
      ranks_.push_back(hosts_->start(rank / options_.ranks_per_host,
                                     [&] { return play_rank(rank, commands[0], folder); }));
      close(commands[0]);
    }
    if (!pass_on("ready")) return 1;
    for (std::string line; std::getline(std::cin, line);) {
      for (const int commands : commands_) {
        if (!write_line(commands, line)) return 1;
      }
      if (!pass_on("")) return 1;
    }
    return 0;
  }

  bool choose_congestion_control(int host) {
    if (options_.congestion_control.empty()) return true;
    const pid_t process = hosts_->start(host, [&] {
      std::ofstream setting(kCongestionControl);
      setting << options_.congestion_control << std::flush;
      return setting ? 0 : 1;
    });
    int status = -1;
    if (waitpid(process, &status, 0) == process && status == 0) return true;
    fmt::print(stderr, "choose '{}' for TCP: the kernel does not offer it\n",
               options_.congestion_control);
    return false;
  }

  int play_rank(int rank, int commands, const std::string& folder) const {
    auto made = Rank::connect(rank, options_, folder);
    if (!made.ok()) return failed(rank, made.status());
    if (rank == 0 && !write_line(answers_[1], "ready")) return 1;
    while (const auto line = read_line(commands)) {
      const auto seconds = made->take(*line);
      if (!seconds.ok()) return failed(rank, seconds.status());
      if (rank == 0 && !write_line(answers_[1], fmt::format("{}", *seconds))) return 1;
    }
    return 0;
  }

  static int failed(int rank, const Status& status) {
    fmt::print(stderr, "rank {}: {}\n", rank, status.to_string());
    return 1;
  }

  // Waits for rank 0. Returns false if a rank has ended, or it takes too long.
  bool pass_on(const std::string& expected) {
    const auto until = std::chrono::steady_clock::now() + kTurnMax;
    pollfd polled = {answers_[0], POLLIN, 0};
    while (poll(&polled, 1, 100) != 1) {
      for (const pid_t rank : ranks_) {
        if (waitpid(rank, nullptr, WNOHANG) != 0) return false;
      }
      if (std::chrono::steady_clock::now() > until) return false;
    }
    const auto line = read_line(answers_[0]);
    if (!line || (!expected.empty() && *line != expected)) return false;
    answer(*line);
    return true;
  }

  const LaboratoryOptions options_;
  std::unique_ptr<testing::Hosts> hosts_;
  std::array<int, 2> answers_{};  // of rank 0
  std::vector<int> commands_;     // to each rank
  std::vector<pid_t> ranks_;
};

}  // namespace

Result<Laboratory> Laboratory::start(const LaboratoryOptions& options) {
  const testing::LinkOptions& link = options.link;
  const bool is_emulated = link.delay.count() > 0 || link.loss > 0;
  const std::string why =
      is_emulated ? testing::Hosts::why_no_emulator() : testing::Hosts::why_not();
  if (!why.empty()) return Status(StatusCode::kUnavailable, why);
  FFDL_ASSIGN_OR_RETURN(
      auto process,
      Resident::start_self({"--role", "laboratory", std::to_string(options.hosts),
                            std::to_string(options.ranks_per_host),
                            std::to_string(link.delay.count()), fmt::format("{}", link.loss),
                            fmt::format("{}", link.rate), options.congestion_control}));
  FFDL_RETURN_IF_ERROR(process->ask("", std::chrono::minutes(2)).status());
  return Laboratory(std::move(process), options);
}

Result<double> Laboratory::take(const std::string& line) {
  FFDL_ASSIGN_OR_RETURN(const std::string seconds, process_->ask(line, kTurnMax));
  return std::stod(seconds);
}

std::string default_congestion_control() {
  std::ifstream setting(kCongestionControl);
  std::string name;
  setting >> name;
  return name;
}

int play_laboratory(const std::vector<std::string>& words) {
  if (words.size() != 6) return 1;
  return LaboratoryServer({.hosts = std::stoi(words[0]),
                           .ranks_per_host = std::stoi(words[1]),
                           .link = {.delay = std::chrono::nanoseconds(std::stoll(words[2])),
                                    .loss = std::stod(words[3]),
                                    .rate = std::stod(words[4])},
                           .congestion_control = words[5]})
      .run();
}

}  // namespace ffdl::bench
