// Trains one job while its members are killed, stopped, started, asked to leave and replaced at
// random. The records of all members must agree: equal states after equal steps, and in the audit
// each sample once per epoch. With consistent recovery a kill takes all members back to the newest
// checkpoint. Then the audit covers the steps that count in the end.
//   session_kill_test [--events N | --epochs N] [--state BYTES] [--bucket BYTES]
//                     [--recovery consistent]
// With --bucket the first half of the gradients is averaged while the second is computed.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "elastic/state/state_copy.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "support/fork_child.h"
#include "support/session_diary.h"
#include "support/shared_board.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::argument;
using testing::compare_states;
using testing::Diary;
using testing::DiaryModel;
using testing::files_of;
using testing::make_ledger;
using testing::open_diary;
using testing::States;

constexpr int kWorkersMax = 4;
constexpr uint64_t kSamples = 1000;
constexpr uint64_t kPartition = 64;
constexpr uint64_t kBatch = 8;
// A busy machine keeps it alive; a member that stops for longer is left out.
constexpr Duration kLease = 2s;

// State shared by the parent and the members.
struct Board {
  std::atomic<uint64_t> epoch;       // the newest that a member has begun
  std::atomic<uint64_t> last_epoch;  // all members finish once it has begun
  std::atomic<bool> is_wrong;        // a member has seen an error
  std::atomic<uint64_t> early_buckets;
  std::atomic<uint64_t> lineage;  // the newest that a member has made a step in
  struct Worker {
    std::atomic<uint64_t> steps;       // steps ended by the present process
    std::atomic<uint64_t> generation;  // generation of the last step
    std::atomic<bool> leave;
  };
  std::array<Worker, kWorkersMax> workers;
};

[[noreturn]] void give_up(Board& board, const std::string& why) {
  fmt::print("{}\n", why);
  std::fflush(stdout);
  board.is_wrong = true;
  _exit(1);
}

// --- a member ------------------------------------------------------------------------------------

struct Job {
  std::string folder;
  size_t elements = 0;
  Recovery recovery = Recovery::kForward;
  uint64_t bucket_bytes = 0;
};

constexpr int kNobody = -1;

std::string id_of(int number) { return number == kNobody ? "" : fmt::format("w{}", number); }

LedgerOptions data_of_job() {
  return {.samples = kSamples, .partition_samples = kPartition, .epochs = 0, .seed = 5};
}

// Trains until all epochs are done (false) or the member has left (true).
Result<bool> train_epochs(const Job& job, Session& session, SampleLedger& ledger, DiaryModel& model,
                          Diary& diary, Board::Worker& worker, Board& board) {
  uint64_t early_buckets = session.stats().early_buckets;
  while (ledger.epoch() < board.last_epoch) {
    if (worker.leave) session.ask_to_leave();
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take(kBatch));
    uint64_t position = 0;
    for (const SampleRange& range : ranges) position += range.partition * 1000 + range.begin;
    model.compute_half(position, 0);
    if (job.bucket_bytes > 0) FFDL_RETURN_IF_ERROR(session.begin_average(1, ledger.taken()));
    model.compute_half(position, 1);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session.end_step(ledger.taken()));
    if (result == StepResult::kLeft) return true;
    if (job.recovery == Recovery::kForward && session.world().lineage != 1) {
      give_up(board, "the job began anew");
    }
    diary.hashes[session.step()] = elastic::hash_of(model.state(), {});
    board.epoch = std::max<uint64_t>(board.epoch, ledger.epoch());
    board.lineage = std::max<uint64_t>(board.lineage, session.world().lineage);
    worker.generation = session.world().generation;
    board.early_buckets += session.stats().early_buckets - early_buckets;
    early_buckets = session.stats().early_buckets;
    ++worker.steps;
  }
  return false;
}

Status train(const Job& job, int number, int predecessor, Board& board) {
  FFDL_ASSIGN_OR_RETURN(
      Diary diary, open_diary(job.folder, fmt::format("{}-{}", number, getpid()), data_of_job()));
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_ledger(data_of_job(), diary));
  FFDL_ASSIGN_OR_RETURN(const auto store,
                        open_store("tcp://" + job.folder + "/store", system_runtime(),
                                   {.operation_timeout = 60s}));  // its server may be stopped
  DiaryModel model(job.elements, diary);
  SessionOptions options;
  options.self.id = id_of(number);
  options.membership.takes_over_from = id_of(predecessor);
  options.participants = {ledger->participant()};
  options.membership.heartbeat = kLease / 10;
  options.membership.lease = kLease;
  options.membership.recovery = job.recovery;
  if (job.recovery == Recovery::kConsistent) {
    options.checkpoints.folder = job.folder + "/checkpoints";
    options.checkpoints.every_steps = 7;
  }
  options.bucket_bytes = job.bucket_bytes;
  options.shared_memory = model.shared_memory();
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  Board::Worker& worker = board.workers[static_cast<size_t>(number)];
  Status finished;
  do {
    FFDL_ASSIGN_OR_RETURN(const bool has_left,
                          train_epochs(job, *session, *ledger, model, diary, worker, board));
    if (has_left) return {};
    finished = session->finish();
  } while (finished.code() == StatusCode::kWorldChanged);  // the members went back
  return finished;
}

// --- the parent ----------------------------------------------------------------------------------

class Jobs {
 public:
  Jobs(Job job, Board& board, uint64_t seed) : job_(std::move(job)), board_(board), random_(seed) {}

  // Makes so many events, or as many as fit into so many epochs. Makes more while members have not
  // done at least once what this job is to try, up to ten times as many. Returns false if a member
  // ended in error.
  bool run(int events, uint64_t epochs) {
    for (int number = 0; number < 2; ++number) start(number);
    const auto is_over = [&](int done) {
      if (epochs > 0) return board_.epoch >= epochs;
      return done >= events && (has_tried_all() || done >= 10 * events);
    };
    for (int done = 0; !is_over(done) && !board_.is_wrong;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random_() % 150));
      reap();
      if (act()) ++done;
    }
    const uint64_t last = board_.epoch + 2;
    board_.last_epoch = last;
    const auto patience = std::chrono::steady_clock::now() + 120s;
    while (!running().empty() && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(10ms);
      reap();
    }
    if (!running().empty()) fmt::print("{} members did not finish\n", running().size());
    const bool all_ended = running().empty();
    for (const int number : running()) kill(pid_[number], SIGKILL);
    last_epoch_ = last;
    return all_ended && !has_failed_ && !board_.is_wrong;
  }

  uint64_t last_epoch() const { return last_epoch_; }
  std::string counts() const {
    return fmt::format(
        "{} starts, {} of them takeovers, {} kills, {} leaves, {} stops, {} early buckets", starts_,
        takeovers_, kills_, leaves_, stops_, board_.early_buckets.load());
  }

 private:
  bool has_tried_all() const {
    return (job_.recovery == Recovery::kForward || board_.lineage > 1) &&
           (job_.bucket_bytes == 0 || board_.early_buckets > 0);
  }
  std::vector<int> running() const {
    std::vector<int> numbers;
    for (int number = 0; number < kWorkersMax; ++number) {
      if (pid_[number] > 0) numbers.push_back(number);
    }
    return numbers;
  }
  // Returns the members that have the state and no successor: one of them must stay. A member that
  // was stopped for long is not in the newest world, and its state is not the newest.
  std::vector<int> settled() const {
    std::vector<int> numbers = running();
    uint64_t newest = 0;
    for (const int number : numbers) newest = std::max(newest, worker(number).generation.load());
    std::erase_if(numbers, [&](int number) {
      const Board::Worker& one = worker(number);
      return one.steps < 3 || one.leave || hands_over(number) || one.generation != newest;
    });
    return numbers;
  }
  // Returns true until the successor has died or the member itself has ended.
  bool hands_over(int number) const {
    return std::any_of(predecessor_.begin(), predecessor_.end(),
                       [&](int predecessor) { return predecessor == number; });
  }
  Board::Worker& worker(int number) const { return board_.workers[static_cast<size_t>(number)]; }

  void start(int number, int predecessor = kNobody) {
    predecessor_[number] = predecessor;
    worker(number).steps = 0;
    worker(number).generation = 0;
    worker(number).leave = false;
    ++starts_;
    pid_[number] = testing::fork_child();
    if (pid_[number] != 0) return;
    const Status outcome = train(job_, number, predecessor, board_);
    if (!outcome.ok()) {
      fmt::print("{}: {}\n", id_of(number), outcome.to_string());
      std::fflush(stdout);
    }
    _exit(outcome.ok() ? 0 : 1);
  }

  void reap() {
    for (const int number : running()) {
      int status = 0;
      if (waitpid(pid_[number], &status, WNOHANG) != pid_[number]) continue;
      has_ended(number);
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0) has_failed_ = true;
      if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) has_failed_ = true;
    }
  }

  void has_ended(int number) {
    pid_[number] = 0;
    predecessor_[number] = kNobody;
    std::replace(predecessor_.begin(), predecessor_.end(), number, kNobody);
  }

  bool act() {
    const auto ready = settled();
    const auto free = std::find(pid_.begin(), pid_.end(), 0);
    const int place = static_cast<int>(free - pid_.begin());
    const uint64_t kind = random_() % 10;
    if (kind < 3 && place < kWorkersMax) {
      start(place);
      return true;
    }
    // Another settled member must stay.
    if (ready.size() < 2) return false;
    const int one = ready[random_() % ready.size()];
    if (kind >= 8) {
      if (place == kWorkersMax) return false;
      start(place, one);
      ++takeovers_;
    } else if (kind < 6) {
      // This process may have stood still since it chose: another settled member must be there yet.
      testing::stop_process(pid_[one]);
      if (settled().size() < 2) {
        kill(pid_[one], SIGCONT);
        return false;
      }
      kill(pid_[one], SIGKILL);
      int status = 0;
      waitpid(pid_[one], &status, 0);
      has_ended(one);
      ++kills_;
    } else if (kind == 6) {
      worker(one).leave = true;
      ++leaves_;
    } else {
      kill(pid_[one], SIGSTOP);
      std::this_thread::sleep_for(kLease * static_cast<int>(random_() % 15) / 10);
      worker(one).steps = 0;
      kill(pid_[one], SIGCONT);
      ++stops_;
    }
    return true;
  }

  const Job job_;
  Board& board_;
  std::minstd_rand random_;
  std::array<pid_t, kWorkersMax> pid_{};  // 0: none in this place
  std::array<int, kWorkersMax> predecessor_ = {kNobody, kNobody, kNobody, kNobody};
  uint64_t last_epoch_ = 0;
  bool has_failed_ = false;
  int starts_ = 0;
  int takeovers_ = 0;
  int kills_ = 0;
  int leaves_ = 0;
  int stops_ = 0;
};

// --- the records of members ----------------------------------------------------------------------

// Checks that each sample occurs once in so many epochs, and in the begun part of the next.
bool is_audited(const std::vector<std::string>& paths, uint64_t epochs) {
  const auto audit = audit_commit_logs(paths);
  if (!audit.ok()) {
    fmt::print("{}\n", audit.status().to_string());
    return false;
  }
  for (const std::string& problem : audit->first_problems) fmt::print("{}\n", problem);
  fmt::print("{} steps committed {} samples: {} epochs of {}, {} missing, {} repeated\n",
             audit->steps, audit->samples, audit->epochs, kSamples, audit->missing,
             audit->repeated);
  return audit->problems == 0 && audit->epochs >= epochs;
}

int run(int argc, char** argv) {
  const uint64_t epochs = argument(argc, argv, "--epochs", 0);
  const int events = static_cast<int>(argument(argc, argv, "--events", 60));
  const uint64_t seed = argument(argc, argv, "--seed", std::random_device()());
  const uint64_t bucket_bytes = argument(argc, argv, "--bucket", 0);
  const TempFolder folder;
  Board& board = testing::make_shared_board<Board>();
  board.last_epoch = ~uint64_t{0};
  const bool goes_back =
      std::find(argv, argv + argc, std::string_view("consistent")) != argv + argc;
  Jobs jobs({folder.path(), argument(argc, argv, "--state", 80'000) / 8,
             goes_back ? Recovery::kConsistent : Recovery::kForward, bucket_bytes},
            board, seed);
  const bool all_well = jobs.run(events, epochs);
  const States compared = compare_states(files_of(folder.path(), "states-"));
  const bool went_back = compared.lineages > 1;
  if (goes_back && !went_back) fmt::print("members were killed, and nobody went back\n");
  const bool is_tried = bucket_bytes == 0 || board.early_buckets > 0;
  const bool is_right = all_well && compared.are_equal && goes_back == went_back && is_tried &&
                        is_audited(files_of(folder.path(), "commits-"), jobs.last_epoch());
  fmt::print("seed {}: {}; {} lineages: {}\n", seed, jobs.counts(), compared.lineages,
             is_right ? "well" : "not well");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) { return ffdl::run(argc, argv); }
