// Workers without a session train so many epochs of a small data set, and share it by a ledger in a
// store, while they are killed, stopped, start and leave at random; so is the one that serves the
// store. The audit of their logs must find each sample once in every epoch, and no more may have
// been used twice than is counted.
//   ledger_kill_test [--epochs N] [--pause MILLISECONDS] [--seed N]
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/commit_log.h"
#include "ffdl/store_ledger.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkersMax = 4;
constexpr uint64_t kBatch = 3;
// Busy machines keep it alive; one that is stopped for longer is taken for dead.
constexpr Duration kLease = 1s;

// What the parent and the workers see of each other.
struct Board {
  std::atomic<uint64_t> used;      // samples, in gradients
  std::atomic<uint64_t> repeated;  // as the ledger counts them
  std::atomic<bool> is_done;
  std::array<std::atomic<bool>, kWorkersMax> leave;
};

PartitionLedgerOptions data_of(uint64_t epochs) {
  return {.samples = 100, .partition_samples = 7, .epochs = epochs, .seed = 5};
}

Status wait_or_go_on(StoreLedger& ledger) {
  const Status waited = ledger.wait(deadline_in(100ms));
  return waited.code() == StatusCode::kTimeout ? Status() : waited;
}

// One life. Ends well when all is done or it has left.
Status live(Store& store, CommitLog& log, uint64_t epochs, int number, Board& board) {
  StoreLedgerOptions options;
  options.data = data_of(epochs);
  options.data.on_stable = [&log](const CommittedStep& step) { log.write(step); };
  options.id = fmt::format("w{}", number);
  options.lease = kLease;
  FFDL_ASSIGN_OR_RETURN(const auto ledger, StoreLedger::join(options, store, system_runtime()));
  while (!ledger->is_done()) {
    if (board.leave[static_cast<size_t>(number)]) return ledger->leave();
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take(kBatch));
    if (ranges.empty()) FFDL_RETURN_IF_ERROR(wait_or_go_on(*ledger));
    board.used += ledger->taken();
    Status committed;
    do committed = ledger->advance();
    while (committed.code() == StatusCode::kTimeout ||
           committed.code() == StatusCode::kUnavailable);
    FFDL_RETURN_IF_ERROR(committed);
  }
  board.repeated = ledger->stats().repeated;
  board.is_done = true;
  return {};
}

Status train(const std::string& folder, uint64_t epochs, int number, Board& board) {
  FFDL_ASSIGN_OR_RETURN(
      const auto log,
      CommitLog::open(fmt::format("{}/commits-{}-{}", folder, number, getpid()), data_of(epochs)));
  // One of the workers serves the store, and may be killed as any other.
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + folder + "/store", system_runtime(),
                                                     {.leases_outlive_connection = true}));
  while (true) {
    const Status ended = live(*store, *log, epochs, number, board);
    const StatusCode code = ended.code();
    const bool goes_on = code == StatusCode::kCancelled || code == StatusCode::kTimeout ||
                         code == StatusCode::kUnavailable;
    if (!goes_on) return ended;
  }
}

// --- the parent ----------------------------------------------------------------------------------

class Jobs {
 public:
  Jobs(std::string folder, uint64_t epochs, Board& board, uint64_t seed)
      : folder_(std::move(folder)), epochs_(epochs), board_(board), random_(seed) {}

  // False: a worker ended in error, or they do not end.
  bool run(uint64_t pause_ms) {
    const auto patience = std::chrono::steady_clock::now() + 60s + epochs_ * 1s;
    while (!board_.is_done && !has_failed_ && std::chrono::steady_clock::now() < patience) {
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
    return board_.is_done && !has_failed_;
  }
  std::string counts() const {
    return fmt::format("{} starts, {} kills, {} stops, {} leaves", starts_, kills_, stops_,
                       leaves_);
  }

 private:
  void act() {
    const auto number = static_cast<size_t>(random_() % kWorkersMax);
    const pid_t pid = pid_[number];
    const uint64_t kind = random_() % 8;
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

  void start(int number) {
    board_.leave[static_cast<size_t>(number)] = false;
    ++starts_;
    const pid_t pid = fork();
    if (pid == 0) {
      const Status outcome = train(folder_, epochs_, number, board_);
      if (!outcome.ok()) fmt::print("w{}: {}\n", number, outcome.to_string());
      std::fflush(stdout);
      _exit(outcome.ok() ? 0 : 1);
    }
    pid_[static_cast<size_t>(number)] = pid;
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

  const std::string folder_;
  const uint64_t epochs_;
  Board& board_;
  std::minstd_rand random_;
  std::array<pid_t, kWorkersMax> pid_{};  // 0: none in this place
  bool has_failed_ = false;
  int starts_ = 0;
  int kills_ = 0;
  int stops_ = 0;
  int leaves_ = 0;
};

bool check(const std::string& folder, uint64_t epochs, const Board& board) {
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
  const uint64_t expected = epochs * data_of(epochs).samples;
  const uint64_t extra = board.used - audit->samples;
  fmt::print(
      "{} epochs, {} samples in {} commits, {} missing, {} repeated; {} used twice, of {} "
      "that are counted\n",
      audit->epochs, audit->samples, audit->steps, audit->missing, audit->repeated, extra,
      board.repeated.load());
  return audit->problems == 0 && audit->samples == expected && board.used >= expected &&
         extra <= board.repeated;
}

uint64_t argument(int argc, char** argv, std::string_view name, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (name == argv[i]) return std::stoull(argv[i + 1]);
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const uint64_t epochs = argument(argc, argv, "--epochs", 30);
  const uint64_t seed = argument(argc, argv, "--seed", std::random_device()());
  const TempFolder folder;
  Board& board = testing::make_shared_board<Board>();
  Jobs jobs(folder.path(), epochs, board, seed);
  const bool all_well = jobs.run(argument(argc, argv, "--pause", 60));
  const bool is_right = all_well && check(folder.path(), epochs, board);
  fmt::print("seed {}: {}: {}\n", seed, jobs.counts(), is_right ? "well" : "not well");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) { return ffdl::run(argc, argv); }
