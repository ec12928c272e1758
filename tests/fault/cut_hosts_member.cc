#include "fault/cut_hosts_member.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "elastic/state/state_copy.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/log.h"
#include "ffdl/session.h"
#include "ffdl/store.h"
#include "hosts/hosts.h"
#include "support/small_model.h"

namespace ffdl::cuts {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kBatch = 8;
constexpr auto kComputing = 3ms;  // time of one step

// Reads the clock that all processes of the machine share.
double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Holds the states of the steps that a member applied, and writes the stable ones. A step that is
// not stable may be replaced by another.
struct Diary {
  std::unique_ptr<CommitLog> commits;
  std::ofstream states;                 // a line for each: the step, and the hash of its state
  std::map<uint64_t, uint64_t> hashes;  // hashes of states, by step
};

Result<std::unique_ptr<SampleLedger>> make_ledger(Diary& diary) {
  LedgerMemberOptions member;
  member.on_stable = [&diary](const CommittedStep& step) {
    diary.commits->write(step);
    const auto found = diary.hashes.find(step.step);
    if (found == diary.hashes.end()) return;
    diary.states << fmt::format("{} {:016x}\n", step.step, found->second) << std::flush;
    diary.hashes.erase(found);
  };
  return make_session_ledger(data_of_job(), member);
}

SessionOptions options_of(const Part& part, SampleLedger& ledger) {
  SessionOptions options;
  options.self.id = fmt::format("m{}", part.number);
  options.communicator.address =
      part.address.empty() ? testing::Hosts::address(part.host) : part.address;
  options.participants = {ledger.participant()};
  options.membership.heartbeat = part.lease / 10;
  options.membership.lease = part.lease;
  options.membership.min_workers = part.min_workers;
  options.membership.fence_after = part.fence_after;
  options.membership.fence_margin = 1s;
  options.on_fence = SessionOptions::OnFence::kEnd;
  return options;
}

class Life {
 public:
  Life(Session& session, SampleLedger& ledger, testing::SmallModel& model, Diary& diary,
       Board& board, Board::Slot& slot)
      : session_(session),
        ledger_(ledger),
        model_(model),
        diary_(diary),
        board_(board),
        slot_(slot) {}

  Status train() {
    Status finished;
    do {
      while (!session_.is_finished() && ledger_.epoch() < board_.last_epoch) {
        FFDL_ASSIGN_OR_RETURN(const bool goes_on, train_step());
        if (!goes_on) break;
      }
      slot_.is_done = true;
      finished = session_.finish();
    } while (finished.code() == StatusCode::kWorldChanged);
    return finished;
  }

 private:
  Result<bool> train_step() {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger_.take(kBatch));
    uint64_t position = 0;
    for (const SampleRange& range : ranges) position += range.partition * 1000 + range.begin;
    model_.compute(position);
    std::this_thread::sleep_for(kComputing);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session_.end_step(ledger_.taken()));
    if (result == StepResult::kLeft) return false;
    if (result != StepResult::kRetryStep) note_step();
    return true;
  }

  void note_step() {
    if (session_.step() == slot_.step) return;
    const World& world = session_.world();
    diary_.hashes[session_.step()] = elastic::hash_of(model_.state(), {});
    board_.epoch = std::max<uint64_t>(board_.epoch, ledger_.epoch());
    slot_.generation = world.generation;
    slot_.size = world.members.size();
    slot_.step = session_.step();
    slot_.applied_at = std::chrono::steady_clock::now().time_since_epoch().count();
  }

  Session& session_;
  SampleLedger& ledger_;
  testing::SmallModel& model_;
  Diary& diary_;
  Board& board_;
  Board::Slot& slot_;
};

void compare_states(const std::string& path, std::map<std::string, std::string>& states,
                    std::vector<std::string>& problems) {
  std::ifstream file(path);
  // Skips the unfinished last line of a killed process.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const size_t space = line.find(' ');
    const auto [known, is_new] = states.emplace(line.substr(0, space), line.substr(space));
    if (!is_new && known->second != line.substr(space)) {
      problems.push_back("two states of step " + known->first);
    }
  }
}

Status live(const Part& part, Board& board) {
  const auto path = [&](const char* what) {
    return fmt::format("{}/{}-{}-{}", part.folder, what, part.number,
                       std::chrono::steady_clock::now().time_since_epoch().count());
  };
  const int log = open(path("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  dup2(log, STDERR_FILENO);
  set_log_sink([](LogLevel, std::string_view line) {
    fmt::print(stderr, "{:.3f} {}\n", seconds_now(), line);
  });
  FFDL_ASSIGN_OR_RETURN(auto commits, CommitLog::open(path("commits"), data_of_job()));
  Diary diary = {std::move(commits), std::ofstream(path("states")), {}};
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_ledger(diary));
  FFDL_ASSIGN_OR_RETURN(const auto store,
                        open_store(part.store_url, system_runtime(), {.secret = kSecret}));
  testing::SmallModel model;
  FFDL_ASSIGN_OR_RETURN(const auto session,
                        Session::open(options_of(part, *ledger), model, *store));
  Board::Slot& slot = board.slots[static_cast<size_t>(part.number)];
  Status ended = Life(*session, *ledger, model, diary, board, slot).train();
  // Runs before the session's destructor, which waits for a call to a store that is away.
  if (!ended.ok()) slot.over_at = std::chrono::steady_clock::now().time_since_epoch().count();
  return ended;
}

}  // namespace

LedgerOptions data_of_job() {
  return {.samples = 1000, .partition_samples = 64, .epochs = 0, .seed = 5};
}

int serve_store(const std::string& folder, Board& board) {
  const auto made = StoreServer::start({.folder = folder + "/store",
                                        .address = testing::Hosts::store_address(kStoreHost) + ":0",
                                        .secret = kSecret});
  if (!made.ok()) {
    fmt::print("{}\n", made.status().to_string());
    return 1;
  }
  const std::string url = (*made)->url();
  board.port = std::stoul(url.substr(url.rfind(':') + 1));
  while (true) pause();
}

std::string store_url(const Board& board) {
  return fmt::format("tcp://{}:{}", testing::Hosts::store_address(kStoreHost), board.port.load());
}

Ended take_part(const Part& part, Board& board) {
  const Status ended = live(part, board);
  fmt::print(stderr, "{:.3f} {}\n", seconds_now(), ended.to_string());
  if (ended.ok()) return kFinished;
  // The job is done, and no process holds its last state.
  if (ended.code() == StatusCode::kNotFound) return kFinished;
  return ended.code() == StatusCode::kCancelled ? kCancelled : kFailed;
}

Result<CommitAudit> audit(const std::string& folder, std::vector<std::string>& problems) {
  std::vector<std::string> commits;
  std::map<std::string, std::string> states;  // by step
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("commits-")) commits.push_back(entry.path());
    if (name.starts_with("states-")) compare_states(entry.path(), states, problems);
  }
  FFDL_ASSIGN_OR_RETURN(CommitAudit found, audit_commit_logs(commits));
  problems.insert(problems.end(), found.first_problems.begin(), found.first_problems.end());
  return found;
}

}  // namespace ffdl::cuts
