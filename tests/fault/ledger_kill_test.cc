// Trains workers without a session for N epochs of a small data set that they share by a ledger.
// They are killed, stopped, started and asked to leave at random, and so is the process that serves
// them. The audit of their logs must find each sample once in every epoch.
//   ledger_kill_test [--of store|slots] [--epochs N] [--pause MILLISECONDS] [--seed N]
//                    [--staleness N]
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fault/ledger_kill_job.h"
#include "support/fork_child.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

namespace ffdl::ledger_kill {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 120s;  // of a busy machine, until the next sample is used

class Driver {
 public:
  Driver(Job& job, uint64_t epochs, Board& board, uint64_t seed)
      : job_(job), epochs_(epochs), board_(board), random_(seed) {}

  // Returns false if a worker ended in error, or the workers do not end.
  bool run(uint64_t pause_ms) {
    if (job_.has_server()) start_server();
    const Status served = job_.wait_served();
    if (!served.ok()) fmt::print("{}\n", served.to_string());
    while (!board_.is_done && !has_failed_ && goes_on()) {
      act();
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + random_() % pause_ms));
      reap(WNOHANG);
    }
    if (!board_.is_done) {
      fmt::print("they did not get to the end of {} epochs\n", epochs_);
      for (const pid_t pid : pid_) {
        if (pid > 0) kill(pid, SIGKILL);
      }
    }
    reap(0);
    if (server_ > 0) kill_server();
    return board_.is_done && !has_failed_;
  }
  std::string counts() const {
    return fmt::format("{} starts, {} kills, {} stops, {} leaves, {} servers killed", starts_,
                       kills_, stops_, leaves_, server_kills_);
  }

 private:
  // Returns false if the workers have used no sample for long.
  bool goes_on() {
    const Time now = std::chrono::steady_clock::now();
    const uint64_t used = board_.used;
    if (used != used_) used_at_ = now;
    used_ = used;
    return now - used_at_ < kPatience;
  }

  void act() {
    const auto number = static_cast<size_t>(random_() % kWorkersMax);
    const pid_t pid = pid_[number];
    const uint64_t kind = random_() % 8;
    if (server_ > 0 && kind == 7) {
      ++server_kills_;
      kill_server();
      return start_server();
    }
    if (pid == 0) return start(static_cast<int>(number));
    if (kind < 3) {
      kill(pid, SIGKILL);
      ++kills_;
    } else if (kind == 3) {
      board_.leave[number] = true;
      ++leaves_;
    } else if (kind == 4) {
      kill(pid, SIGSTOP);
      std::this_thread::sleep_for(kLease * static_cast<int>(random_() % 15) / 10);
      kill(pid, SIGCONT);
      ++stops_;
    }
  }

  template <class Body>
  static pid_t in_child(const std::string& name, Body&& body) {
    const pid_t pid = testing::fork_child();
    if (pid != 0) return pid;
    const Status outcome = body();
    if (!outcome.ok()) fmt::print("{}: {}\n", name, outcome.to_string());
    std::fflush(stdout);
    _exit(outcome.ok() ? 0 : 1);
  }

  void start(int number) {
    board_.leave[static_cast<size_t>(number)] = false;
    ++starts_;
    pid_[static_cast<size_t>(number)] =
        in_child(fmt::format("w{}", number), [&] { return job_.train(number); });
  }
  void start_server() {
    server_ = in_child("server", [&] { return job_.serve(); });
  }
  void kill_server() {
    kill(server_, SIGKILL);
    int status = 0;
    waitpid(server_, &status, 0);
    if (!WIFSIGNALED(status)) has_failed_ = true;
    server_ = 0;
  }

  void reap(int how) {
    for (pid_t& pid : pid_) {
      int status = 0;
      if (pid == 0 || waitpid(pid, &status, how) != pid) continue;
      pid = 0;
      const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (!ended_well && !was_killed) has_failed_ = true;
    }
  }

  Job& job_;
  const uint64_t epochs_;
  Board& board_;
  std::minstd_rand random_;
  std::array<pid_t, kWorkersMax> pid_{};  // 0: none in this place
  pid_t server_ = 0;
  uint64_t used_ = 0;  // samples, at the last look
  Time used_at_ = std::chrono::steady_clock::now();
  bool has_failed_ = false;
  int starts_ = 0;
  int kills_ = 0;
  int stops_ = 0;
  int leaves_ = 0;
  int server_kills_ = 0;
};

bool check(const std::string& folder, uint64_t epochs, Job& job) {
  std::vector<std::string> logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("commits-")) logs.push_back(entry.path());
  }
  const auto audit = audit_commit_logs(logs, {.complete = true});
  if (!audit.ok()) {
    fmt::print("{}\n", audit.status().to_string());
    return false;
  }
  for (const std::string& problem : audit->first_problems) fmt::print("{}\n", problem);
  fmt::print("{} epochs, {} samples in {} commits, {} missing, {} repeated\n", audit->epochs,
             audit->samples, audit->steps, audit->missing, audit->repeated);
  const std::string wrong = job.check(*audit);
  fmt::print("{}", wrong.empty() ? "" : wrong + "\n");
  return audit->problems == 0 && audit->samples == epochs * data_of(epochs).samples &&
         wrong.empty();
}

std::string argument(int argc, char** argv, std::string_view name, const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (name == argv[i]) return argv[i + 1];
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const auto number = [&](std::string_view name, uint64_t otherwise) -> uint64_t {
    return std::stoull(argument(argc, argv, name, std::to_string(otherwise)));
  };
  const uint64_t seed = number("--seed", std::random_device()());
  const TempFolder folder;
  const JobOptions options{.folder = folder.path(),
                           .epochs = number("--epochs", 30),
                           .staleness = number("--staleness", 0)};
  Board& board = testing::make_shared_board<Board>();
  const auto job = argument(argc, argv, "--of", "store") == "slots"
                       ? make_slot_job(options, board)
                       : make_store_job(options, board);
  Driver driver(*job, options.epochs, board, seed);
  const bool all_well = driver.run(number("--pause", 60));
  const bool is_right = all_well && check(folder.path(), options.epochs, *job);
  fmt::print("seed {}: {}: {}\n", seed, driver.counts(), is_right ? "well" : "not well");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace ffdl::ledger_kill

int main(int argc, char** argv) { return ffdl::ledger_kill::run(argc, argv); }
