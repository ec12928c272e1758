// Kills processes that write checkpoints, at random moments. A load afterwards finds a complete
// checkpoint with the bits of its step.
//   checkpoint_kill_test [--kills N] [--rounds N] [--seed N]
// Makes N kills of a process that saves states alone. Then runs N rounds of a job of one to three
// members: all are killed, and begin again from its last published checkpoint.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "elastic/state/state_copy.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/log.h"
#include "ffdl/session.h"
#include "support/fork_child.h"
#include "support/shared_board.h"
#include "support/small_model.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kMembersMax = 3;
constexpr Duration kPatience = 120s;  // for one checkpoint, on a busy machine
constexpr size_t kElements = 100'001;
constexpr uint64_t kSamples = 4000;
constexpr uint64_t kPartition = 100;

// State shared by the parent and its processes.
struct Board {
  std::atomic<uint64_t> saved;      // the step of the last saved checkpoint
  std::atomic<uint64_t> published;  // checkpoints of this round
  std::atomic<uint64_t> steps;      // steps of this round
  std::atomic<bool> is_wrong;
  std::array<std::atomic<uint64_t>, kMembersMax> incarnation;
};

void pause(Duration time) { std::this_thread::sleep_for(time); }

void kill_and_wait(pid_t process) {
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

// --- one process that saves ----------------------------------------------------------------------

std::vector<float> values_of(uint64_t step) {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((step * 31 + i) % 65536);
  return values;
}

bool kill_savers(int kills, uint64_t seed, Board& board) {
  const TempFolder folder;
  CheckpointOptions options;
  options.folder = folder.path();
  options.keep_last = 1;
  std::minstd_rand random(static_cast<uint32_t>(seed));
  uint64_t resumed = 0;
  for (int i = 0; i < kills; ++i) {
    const uint64_t begin = resumed;
    const uint64_t before = board.saved;
    const pid_t saver = testing::fork_child();
    if (saver == 0) {
      for (uint64_t step = begin + 1;; ++step) {
        std::vector<float> values = values_of(step);
        const Buffer tensor = {values.data(), values.size()};
        if (!save_checkpoint(options, {&tensor, 1}, step).ok()) _exit(1);
        board.saved = step;
      }
    }
    const Time patience = deadline_in(kPatience);
    while (board.saved == before && deadline_in({}) < patience) pause(1ms);
    if (board.saved == before) {
      fmt::print("kill {}: nothing was saved\n", i);
      return false;
    }
    pause(std::chrono::microseconds(random() % 20'000));
    kill_and_wait(saver);
    std::vector<float> values(kElements);
    const std::vector<Buffer> into = {{values.data(), values.size()}};
    const auto loaded = load_checkpoint(options, into);
    if (!loaded.ok() || loaded->step < board.saved || values != values_of(loaded->step)) {
      fmt::print(
          "kill {}: {} was saved; {}\n", i, board.saved.load(),
          loaded.ok() ? fmt::format("{} was loaded", loaded->step) : loaded.status().to_string());
      return false;
    }
    resumed = loaded->step;
  }
  fmt::print("{} kills of one that saves, {} checkpoints\n", kills, resumed);
  return true;
}

// --- a job ---------------------------------------------------------------------------------------

// Writes lines "state LINEAGE STEP HASH" and "step LINEAGE STEP PARTITION BEGIN END" of stable
// steps. A line "begin LINEAGE STEP HASH" has the first state of a lineage.
Status train(const std::string& folder, int number, int round, Board& board) {
  std::ofstream diary(fmt::format("{}/diary-{}-{}", folder, round, number));
  std::map<uint64_t, uint64_t> hashes;
  testing::SmallModel model(kElements);
  LedgerOptions samples;
  samples.samples = kSamples;
  samples.partition_samples = kPartition;
  samples.epochs = 0;
  LedgerMemberOptions member;
  member.on_stable = [&](const CommittedStep& step) {
    const uint64_t lineage = model.worlds.back().lineage;
    for (const auto& part : step.parts) {
      diary << fmt::format("step {} {} {} {} {}\n", lineage, step.step, part.range.partition,
                           part.range.begin, part.range.end);
    }
    if (hashes.contains(step.step)) {
      diary << fmt::format("state {} {} {:016x}\n", lineage, step.step, hashes[step.step]);
    }
    hashes.erase(step.step);
    diary.flush();
  };
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(samples, member));
  FFDL_ASSIGN_OR_RETURN(const auto store,
                        open_store("file://" + folder + "/store", system_runtime()));
  SessionOptions options;
  options.self.id = fmt::format("w{}", number);
  options.participants = {ledger->participant()};
  options.membership.heartbeat = 200ms;
  options.membership.lease = 2s;
  options.checkpoints.folder = folder + "/checkpoints";
  options.checkpoints.every_steps = 3;
  options.checkpoints.keep_last = 1;
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  board.incarnation[static_cast<size_t>(number)] = session->self().incarnation;
  diary << fmt::format("begin {} {} {:016x}\n", session->world().lineage, session->step(),
                       elastic::hash_of(model.state(), {}));
  diary.flush();
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger->take(8));
    uint64_t position = 0;
    for (const SampleRange& range : ranges) position += range.partition * 1000 + range.begin;
    model.compute(position);
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(ledger->taken()));
    if (result == StepResult::kLeft) return {};
    hashes[session->step()] = elastic::hash_of(model.state(), {});
    ++board.steps;
    board.published = std::max<uint64_t>(board.published, session->stats().checkpoints);
  }
}

struct Line {
  std::string kind;
  uint64_t lineage = 0;
  uint64_t step = 0;
  std::string rest;
};

// The joined record of all lineages. Each begins with a state that the one before had made stable.
class Story {
 public:
  void read(const std::string& path) {
    std::ifstream file(path);
    for (std::string text; std::getline(file, text) && !file.eof();) {
      std::istringstream words(text);
      Line line;
      words >> line.kind >> line.lineage >> line.step;
      std::getline(words, line.rest);
      if (line.kind == "step") {
        commits_[line.lineage][line.step].insert(line.rest);
      } else {
        note_state(line);
      }
    }
  }
  bool check() {
    std::map<uint64_t, std::set<std::string>> alive;  // commits of the surviving lineage
    for (const auto& [lineage, begin] : begins_) {
      if (lineage > 1) {
        const auto known = states_.find({lineage - 1, begin.first});
        if (begin.first == 0) problem(fmt::format("lineage {} begins from nothing", lineage));
        if (known != states_.end() && known->second != begin.second) {
          problem(
              fmt::format("lineage {} begins with another state of step {}", lineage, begin.first));
        }
        matched_ += known != states_.end() ? 1 : 0;
      }
      alive.erase(alive.upper_bound(begin.first), alive.end());  // these were given up
      for (const auto& [step, parts] : commits_[lineage]) {
        if (step >= begin.first) alive[step].insert(parts.begin(), parts.end());
      }
    }
    check_samples(alive);
    fmt::print("lineages up to {}; {} of their first states were seen before; {} steps\n",
               begins_.rbegin()->first, matched_, alive.size());
    return problems_ == 0;
  }

 private:
  void note_state(const Line& line) {
    const auto key = std::pair(line.lineage, line.step);
    if (line.kind == "begin" && !begins_.contains(line.lineage)) {
      begins_[line.lineage] = {line.step, line.rest};
    }
    const auto [known, is_new] = states_.emplace(key, line.rest);
    if (known->second != line.rest) {
      problem(fmt::format("lineage {} has two states of step {}", line.lineage, line.step));
    }
    // A late newcomer begins further on.
    auto& begin = begins_[line.lineage];
    if (line.kind == "begin" && line.step < begin.first) begin = {line.step, line.rest};
  }
  void check_samples(const std::map<uint64_t, std::set<std::string>>& alive) {
    std::map<uint64_t, std::map<uint64_t, uint64_t>> ranges;
    for (const auto& [step, parts] : alive) {
      for (const std::string& part : parts) {
        std::istringstream words(part);
        uint64_t partition = 0, begin = 0, end = 0;
        words >> partition >> begin >> end;
        if (!ranges[partition].emplace(begin, end).second) {
          problem(fmt::format("step {} commits {} once more", step, part));
        }
      }
    }
    for (const auto& [partition, all] : ranges) {
      uint64_t next = 0;
      for (const auto& [begin, end] : all) {
        if (begin != next) problem(fmt::format("a gap in partition {} at {}", partition, next));
        next = end;
      }
    }
  }
  void problem(const std::string& what) {
    if (++problems_ <= 5) fmt::print("{}\n", what);
  }

  std::map<uint64_t, std::pair<uint64_t, std::string>> begins_;  // step and hash, by lineage
  std::map<std::pair<uint64_t, uint64_t>, std::string> states_;
  std::map<uint64_t, std::map<uint64_t, std::set<std::string>>> commits_;
  int matched_ = 0;
  int problems_ = 0;
};

bool kill_jobs(int rounds, uint64_t seed, Board& board) {
  const TempFolder folder;
  std::minstd_rand random(static_cast<uint32_t>(seed));
  const auto store = open_store("file://" + folder.file("store"), system_runtime());
  for (int round = 0; round < rounds; ++round) {
    board.published = board.steps = 0;
    for (auto& incarnation : board.incarnation) incarnation = 0;
    std::vector<pid_t> members;
    const int count = 1 + static_cast<int>(random() % kMembersMax);
    for (int number = 0; number < count; ++number) {
      members.push_back(testing::fork_child());
      if (members.back() != 0) continue;
      const Status outcome = train(folder.path(), number, round, board);
      fmt::print("w{}: {}\n", number, outcome.to_string());
      std::fflush(stdout);
      board.is_wrong = true;
      _exit(1);
    }
    const auto have_come = [&] {
      for (int number = 0; number < count; ++number) {
        if (board.incarnation[static_cast<size_t>(number)] == 0) return false;
      }
      return board.published > 0;
    };
    const Time patience = deadline_in(kPatience);
    while (!have_come() && !board.is_wrong && deadline_in({}) < patience) pause(1ms);
    pause(std::chrono::microseconds(random() % 50'000));
    const bool is_well = have_come() && !board.is_wrong;
    for (const pid_t member : members) kill_and_wait(member);
    if (!is_well) {
      fmt::print("round {}: the job did not work\n", round);
      return false;
    }
    for (int number = 0; number < count; ++number) {
      const uint64_t incarnation = board.incarnation[static_cast<size_t>(number)];
      if (!report_death(**store, "job", {fmt::format("w{}", number), incarnation, ""}).ok())
        return false;
    }
  }
  Story story;
  for (int round = 0; round < rounds; ++round) {
    for (int number = 0; number < kMembersMax; ++number) {
      story.read(folder.file(fmt::format("diary-{}-{}", round, number)));
    }
  }
  return story.check();
}

uint64_t argument(int argc, char** argv, std::string_view name, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (name == argv[i]) return std::stoull(argv[i + 1]);
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const uint64_t seed = argument(argc, argv, "--seed", std::random_device()());
  Board& board = testing::make_shared_board<Board>();
  fmt::print("seed {}\n", seed);
  const bool is_well =
      kill_savers(static_cast<int>(argument(argc, argv, "--kills", 50)), seed, board) &&
      kill_jobs(static_cast<int>(argument(argc, argv, "--rounds", 10)), seed, board);
  fmt::print("{}\n", is_well ? "well" : "not well");
  return is_well ? 0 : 1;
}

}  // namespace
}  // namespace ffdl

int main(int argc, char** argv) { return ffdl::run(argc, argv); }
