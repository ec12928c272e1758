// One job trains on while its members are killed, stopped, start, leave and take over from each
// other at random. What each
// member says of what it did must fit together: equal states after equal steps, and in the audit
// each sample once per epoch. With consistent recovery whoever is killed takes all back to the
// newest checkpoint; then the audit is of the steps that count in the end.
//   session_kill_test [--events N] [--state BYTES] [--recovery consistent]
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "elastic/state_copy.h"
#include "ffdl/log.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/session.h"
#include "support/shared_board.h"
#include "support/small_model.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkersMax = 4;
constexpr uint64_t kSamples = 1000;
constexpr uint64_t kPartition = 64;
constexpr uint64_t kBatch = 8;
// Busy machines keep it alive; one that is stopped for longer is left out.
constexpr Duration kLease = 2s;

// What the parent and the members see of each other.
struct Board {
  std::atomic<uint64_t> epoch;       // the newest that a member has begun
  std::atomic<uint64_t> last_epoch;  // all finish when it has begun
  std::atomic<bool> is_wrong;        // a member has seen what must not be
  struct Worker {
    std::atomic<uint64_t> steps;       // ended by the process that runs now
    std::atomic<uint64_t> generation;  // of the world of the last one
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
};

constexpr int kNobody = -1;

std::string id_of(int number) { return number == kNobody ? "" : fmt::format("w{}", number); }

// Writes what is stable, and nothing else: another member may have taken back what is not.
struct Diary {
  std::ofstream file;
  std::map<uint64_t, uint64_t> hashes;  // of the states after steps, by step
  uint64_t lineage = 0;                 // that the steps belong to
};

class DiaryModel final : public testing::SmallModel {
 public:
  DiaryModel(size_t elements, Diary& diary) : SmallModel(elements), diary_(diary) {}
  void on_world(const World& world) override {
    if (world.lineage != diary_.lineage) diary_.hashes.clear();
    diary_.lineage = world.lineage;
  }

 private:
  Diary& diary_;
};

Result<std::unique_ptr<PartitionLedger>> make_ledger(Diary& diary) {
  PartitionLedgerOptions options;
  options.samples = kSamples;
  options.partition_samples = kPartition;
  options.epochs = 0;
  options.seed = 5;
  options.on_stable = [&diary](const CommittedStep& step) {
    for (const auto& part : step.parts) {
      diary.file << fmt::format("step {}.{} {}.{} {} {} {}\n", diary.lineage, step.step,
                                part.member.id, part.member.incarnation, part.range.partition,
                                part.range.begin, part.range.end);
    }
    const auto hash = diary.hashes.find(step.step);
    if (hash != diary.hashes.end()) {
      diary.file << fmt::format("state {}.{} {:016x}\n", diary.lineage, step.step, hash->second);
      diary.hashes.erase(hash);
    }
    diary.file.flush();
  };
  return PartitionLedger::create(options);
}

// Until all epochs are done, or it has left.
Result<bool> train_epochs(const Job& job, Session& session, PartitionLedger& ledger,
                          DiaryModel& model, Diary& diary, Board::Worker& worker, Board& board) {
  while (ledger.epoch() < board.last_epoch) {
    if (worker.leave) session.ask_to_leave();
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take(kBatch));
    uint64_t position = 0;
    for (const SampleRange& range : ranges) position += range.partition * 1000 + range.begin;
    model.compute(position);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session.end_step(ledger.taken()));
    if (result == StepResult::kLeft) return true;
    if (job.recovery == Recovery::kForward && session.world().lineage != 1) {
      give_up(board, "the job began anew");
    }
    diary.hashes[session.step()] = elastic::hash_of(model.state(), {});
    board.epoch = std::max<uint64_t>(board.epoch, ledger.epoch());
    worker.generation = session.world().generation;
    ++worker.steps;
  }
  return false;
}

Status train(const Job& job, int number, int predecessor, Board& board) {
  Diary diary = {std::ofstream(fmt::format("{}/audit-{}-{}", job.folder, number, getpid())), {}, 0};
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_ledger(diary));
  FFDL_ASSIGN_OR_RETURN(const auto store,
                        open_store("tcp://" + job.folder + "/store", system_runtime()));
  DiaryModel model(job.elements, diary);
  SessionOptions options;
  options.self.id = id_of(number);
  options.membership.takes_over_from = id_of(predecessor);
  options.participants = {ledger.get()};
  options.membership.heartbeat = kLease / 10;
  options.membership.lease = kLease;
  options.membership.recovery = job.recovery;
  if (job.recovery == Recovery::kConsistent) {
    options.checkpoints.folder = job.folder + "/checkpoints";
    options.checkpoints.every_steps = 7;
  }
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  Board::Worker& worker = board.workers[static_cast<size_t>(number)];
  Status finished;
  do {
    FFDL_ASSIGN_OR_RETURN(const bool has_left,
                          train_epochs(job, *session, *ledger, model, diary, worker, board));
    if (has_left) return {};
    finished = session->finish();
  } while (finished.code() == StatusCode::kWorldChanged);  // they went back
  FFDL_RETURN_IF_ERROR(std::move(finished));
  diary.file << "end\n";
  return {};
}

// --- the parent ----------------------------------------------------------------------------------

class Jobs {
 public:
  Jobs(Job job, Board& board, uint64_t seed) : job_(std::move(job)), board_(board), random_(seed) {}

  // False: a member ended in error.
  bool run(int events) {
    for (int number = 0; number < 2; ++number) start(number);
    for (int done = 0; done < events && !board_.is_wrong;) {
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
    return fmt::format("{} starts, {} of them takeovers, {} kills, {} leaves, {} stops", starts_,
                       takeovers_, kills_, leaves_, stops_);
  }

 private:
  std::vector<int> running() const {
    std::vector<int> numbers;
    for (int number = 0; number < kWorkersMax; ++number) {
      if (pid_[number] > 0) numbers.push_back(number);
    }
    return numbers;
  }
  // Those who have the state and nobody to leave it to: one of them must stay. One that was stopped
  // for long is not in the newest world, and its state is not the newest.
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
  // Until the other has died, or it has itself ended.
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
    pid_[number] = fork();
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
    // Another settled one stays.
    if (ready.size() < 2) return false;
    const int one = ready[random_() % ready.size()];
    if (kind >= 8) {
      if (place == kWorkersMax) return false;
      start(place, one);
      ++takeovers_;
    } else if (kind < 6) {
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

// --- what they wrote -----------------------------------------------------------------------------

class Audit {
 public:
  using Step = std::pair<uint64_t, uint64_t>;  // lineage, and number

  // Lines that a killed process did not write to their ends are left out.
  void read(const std::string& path) {
    std::ifstream file(path);
    std::map<Step, std::string> told;
    bool is_whole = false;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      if (line == "end") {
        is_whole = true;
        break;
      }
      const Step step = step_of(line);
      if (line.starts_with("step")) told[step] += line.substr(line.find(' ', 6)) + "\n";
      if (line.starts_with("state")) same(states_, step, line, "states");
    }
    // The last one of a killed process may have been cut between its parts.
    if (!is_whole && !told.empty()) told.erase(std::prev(told.end()));
    for (const auto& [step, parts] : told) same(steps_, step, parts, "audits");
  }

  // All of so many epochs, each sample once.
  void check(uint64_t epochs) {
    std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;
    for (const auto& [step, parts] : surviving()) {
      for (size_t at = 0; at < parts.size(); at = parts.find('\n', at) + 1) {
        const std::string line = parts.substr(at, parts.find('\n', at) - at);
        char member[64];
        unsigned partition = 0;
        unsigned long long begin = 0;
        unsigned long long end = 0;
        if (std::sscanf(line.c_str(), " %63s %u %llu %llu", member, &partition, &begin, &end) !=
            4) {
          problem(fmt::format("step {} has a line '{}'", step, line));
        }
        if (!ranges[partition].emplace(begin, end).second) {
          problem(fmt::format("samples from {} of partition {} came twice", begin, partition));
        }
      }
    }
    uint64_t samples = 0;
    for (const auto& [partition, of_it] : ranges) {
      uint64_t next = 0;
      for (const auto& [begin, end] : of_it) {
        if (begin != next) {
          problem(fmt::format("partition {}: {} follows on {}", partition, begin, next));
        }
        next = end;
        samples += end - begin;
      }
    }
    samples_ = samples;
    if (samples < epochs * kSamples) {
      problem(fmt::format("{} samples in {} epochs of {}", samples, epochs, kSamples));
    }
  }

  void problem(const std::string& what) {
    if (++problems_ <= 5) fmt::print("{}\n", what);
  }

  bool ok() const { return problems_ == 0; }
  uint64_t lineages() const { return steps_.empty() ? 0 : steps_.rbegin()->first.first; }
  std::string counts() const {
    return fmt::format("{} steps, {} samples, {} lineages", steps_.size(), samples_, lineages());
  }

 private:
  // "step 2.17 ..."
  static Step step_of(const std::string& line) {
    const size_t begin = line.find(' ') + 1;
    return {std::stoull(line.substr(begin)), std::stoull(line.substr(line.find('.', begin) + 1))};
  }
  // What counts in the end: of each lineage the steps before those that a later one made again.
  std::map<uint64_t, std::string> surviving() const {
    std::map<uint64_t, std::string> steps;
    uint64_t end = ~uint64_t{0};
    uint64_t first = end;
    uint64_t lineage = 0;
    for (auto one = steps_.rbegin(); one != steps_.rend(); ++one) {
      if (one->first.first != lineage) end = std::min(end, first);
      lineage = one->first.first;
      first = one->first.second;
      if (first < end) steps[first] = one->second;
    }
    return steps;
  }
  void same(std::map<Step, std::string>& all, Step step, const std::string& what,
            const char* kind) {
    const auto [known, is_new] = all.emplace(step, what);
    if (!is_new && known->second != what) {
      problem(fmt::format("two {} of step {}.{}:\n{}\n{}", kind, step.first, step.second,
                          known->second, what));
    }
  }
  std::map<Step, std::string> states_;
  std::map<Step, std::string> steps_;
  uint64_t samples_ = 0;
  int problems_ = 0;
};

uint64_t argument(int argc, char** argv, std::string_view name, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (name == argv[i]) return std::stoull(argv[i + 1]);
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const int events = static_cast<int>(argument(argc, argv, "--events", 60));
  const uint64_t seed = argument(argc, argv, "--seed", std::random_device()());
  const TempFolder folder;
  Board& board = testing::make_shared_board<Board>();
  board.last_epoch = ~uint64_t{0};
  const bool goes_back =
      std::find(argv, argv + argc, std::string_view("consistent")) != argv + argc;
  Jobs jobs({folder.path(), argument(argc, argv, "--state", 80'000) / 8,
             goes_back ? Recovery::kConsistent : Recovery::kForward},
            board, seed);
  const bool all_well = jobs.run(events);
  Audit audit;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("audit-")) audit.read(entry.path());
  }
  audit.check(jobs.last_epoch());
  if (goes_back != (audit.lineages() > 1))
    audit.problem("somebody was killed, and nobody went back");
  fmt::print("seed {}: {}; {}: {}\n", seed, jobs.counts(), audit.counts(),
             all_well && audit.ok() ? "well" : "not well");
  return all_well && audit.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) { return ffdl::run(argc, argv); }
