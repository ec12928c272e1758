#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "data/ledger_text.h"
#include "ffdl/data/sample_ledger.h"
#include "support/status_matchers.h"

// Simulates random lives of a job by the rules of docs/internals/protocol-step.md. Members join,
// leave, are killed and return. Steps are applied by some members and not by others; states are
// healed, and taken back. Invariants: members with equal labels have equal bytes. In the surviving
// lineage each sample is committed once per epoch.
namespace ffdl {
namespace {

using Label = std::pair<uint64_t, uint64_t>;  // generation, step

struct Worker {
  Member self{};
  std::unique_ptr<SampleLedger> ledger{};
  Label label{};                                           // none yet: generation 0
  std::map<uint64_t, std::vector<SampleRange>> history{};  // the samples in its state, by step
  std::map<uint64_t, CommittedStep> told{};                // reported by on_stable
  std::vector<std::byte> record{};
};

class Job {
 public:
  Job(uint64_t seed, SampleOrder order) : random_(seed), seed_(seed) {
    options_.samples = 20 + below(200);
    options_.partition_samples = 1 + below(20);
    options_.epochs = 1 + below(3);
    options_.seed = seed;
    options_.shuffle = static_cast<Shuffle>(below(3));
    if (options_.shuffle == Shuffle::kSamples) options_.window_partitions = 1 + below(6);
    options_.order = order;
    if (order == SampleOrder::kGlobal) {
      options_.micro_batch_samples = 1 + below(3);
      options_.batch_samples = options_.micro_batch_samples * (1 + below(12));
    }
  }

  void run() {
    change_world();
    for (int events = 0; !is_done() && !::testing::Test::HasFatalFailure(); ++events) {
      ASSERT_LT(events, 20'000) << "it does not end";
      const uint64_t what = below(20);
      if (what == 0) {
        kill_some();
        change_world();
      } else if (what == 1) {
        change_world();
      } else if (what == 2 && below(4) == 0) {
        begin_anew();
      } else {
        step(below(8) == 0);
      }
    }
    check_samples();
    check_told();
  }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }

  void start() {
    auto worker = std::make_unique<Worker>();
    const std::string id(1, static_cast<char>('a' + below(8)));
    worker->self = {id, ++incarnations_, "address"};
    LedgerMemberOptions member;
    member.partitions_wanted = static_cast<int>(below(5));
    member.on_stable = [&told = worker->told](const CommittedStep& step) {
      EXPECT_TRUE(told.empty() || told.rbegin()->first < step.step) << "in order, once";
      told[step.step] = step;
    };
    worker->ledger = std::move(make_session_ledger(options_, member)).value();
    std::erase_if(workers_, [&](const auto& other) {
      if (other->self.id == id) bury(*other);
      return other->self.id == id;
    });
    workers_.push_back(std::move(worker));
  }

  void bury(Worker& worker) {
    if (worker.label.first == 0) return;
    for (auto& [step, committed] : worker.told) note_told(committed);
  }

  // Kills some members, but never the last state holder.
  void kill_some() {
    for (size_t i = workers_.size(); i-- > 0;) {
      const bool last = living_state_holders() == 1 && is_state_holder(workers_[i]->self);
      if (below(3) == 0 && !last) {
        bury(*workers_[i]);
        workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  bool is_state_holder(const Member& member) const {
    return std::find(state_holders_.begin(), state_holders_.end(), member) != state_holders_.end();
  }
  size_t living_state_holders() const {
    return static_cast<size_t>(std::count_if(
        workers_.begin(), workers_.end(), [&](const auto& w) { return is_state_holder(w->self); }));
  }

  // Forms a world of some members, with at least one state holder. All of them take the state with
  // the highest label. Some worlds fail before that: then some members have the new label, some the
  // old.
  void change_world() {
    members_.clear();
    while (workers_.empty() || below(3) == 0) {
      if (workers_.size() >= 8) break;
      start_unless_it_ends_the_job();
    }
    std::shuffle(workers_.begin(), workers_.end(), random_);
    std::vector<Worker*> chosen;
    for (auto& each : workers_) {
      if (below(4) > 0) chosen.push_back(each.get());
    }
    const auto carries = [&](const Worker* w) {
      return state_holders_.empty() || is_state_holder(w->self);
    };
    if (std::none_of(chosen.begin(), chosen.end(), carries)) {
      for (auto& each : workers_) {
        if (carries(each.get())) chosen.push_back(each.get());
      }
      std::sort(chosen.begin(), chosen.end());
      chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    }
    ASSERT_FALSE(chosen.empty());
    if (bring_together(chosen)) activate(chosen);
  }

  // Starts a member. A new life ends the old one of its id, which must not be the last state
  // holder.
  void start_unless_it_ends_the_job() {
    if (living_state_holders() == 1) {
      const auto carrier = std::find_if(workers_.begin(), workers_.end(),
                                        [&](const auto& w) { return is_state_holder(w->self); });
      const std::string id = (*carrier)->self.id;
      auto kept = std::move(*carrier);
      workers_.erase(carrier);
      start();
      if (workers_.back()->self.id == id) workers_.pop_back();
      workers_.push_back(std::move(kept));
      return;
    }
    start();
  }

  bool bring_together(const std::vector<Worker*>& chosen) {
    ++generation_;
    const Worker& base =
        **std::max_element(chosen.begin(), chosen.end(),
                           [](const Worker* a, const Worker* b) { return a->label < b->label; });
    const auto bytes = base.ledger->participant()->save();
    const auto history = base.history;
    const Label label = base.label;
    const bool comes_apart = !state_holders_.empty() && below(4) == 0;
    World world;
    for (const Worker* each : chosen) world.members.push_back(each->self);
    for (size_t rank = 0; rank < chosen.size(); ++rank) {
      Worker& each = *chosen[rank];
      if (each.label == label) {
        EXPECT_EQ(each.ledger->participant()->save(), bytes) << "equal labels, seed " << seed_;
        EXPECT_EQ(each.history, history) << "seed " << seed_;
      }
      if (comes_apart && below(2) == 0) continue;
      if (each.label < label) EXPECT_OK(each.ledger->participant()->restore(bytes));
      each.history = history;
      world.rank = static_cast<int>(rank);
      each.ledger->participant()->world_changed(world);
      each.label = {generation_, label.second};
    }
    return !comes_apart;
  }

  void activate(const std::vector<Worker*>& chosen) {
    members_ = chosen;
    state_holders_.clear();
    for (const Worker* each : chosen) state_holders_.push_back(each->self);
    // All of them have this state, and it is never taken back.
    for (Worker* each : chosen) each->ledger->participant()->stable(each->label.second);
    if (below(4) == 0) checkpoint_ = {chosen[0]->ledger->participant()->save(), chosen[0]->history};
    check_equal();
  }

  // Runs a step of all members. If it fails, only some of them receive OK, and apply it
  // tentatively.
  void step(bool fails) {
    if (members_.empty()) return change_world();
    std::vector<std::byte> records;
    std::vector<SampleRange> taken;
    uint64_t held = 0;
    for (Worker* each : members_) {
      if (below(8) == 0) each->ledger->want(static_cast<int>(below(5)));
      held += static_cast<uint64_t>(each->ledger->leases().size());
      const uint64_t count = below(6) == 0 ? SampleLedger::kAll : below(9);
      auto ranges = each->ledger->take(count);
      ASSERT_OK(ranges.status());
      taken.insert(taken.end(), ranges->begin(), ranges->end());
      each->record.resize(each->ledger->participant()->record_bytes());
      each->ledger->participant()->write_record(each->record);
      records.insert(records.end(), each->record.begin(), each->record.end());
    }
    const size_t bytes = members_[0]->ledger->participant()->record_bytes();
    const uint64_t step = members_[0]->label.second + 1;
    const uint64_t epoch = members_[0]->ledger->epoch();
    for (Worker* each : members_) {
      if (fails && below(2) == 0) continue;
      each->ledger->participant()->stable(step - 1);
      each->ledger->participant()->applied(step, StepRecords(records, bytes, bytes));
      each->label.second = step;
      each->history[step] = taken;
    }
    if (fails) return change_world();
    check_equal();
    if (held == 0 && epoch == members_[0]->ledger->epoch()) ++idle_steps_;
    ASSERT_LT(idle_steps_, 1000) << "nobody is given anything, seed " << seed_;
  }

  // No state holder is left, so new members load the checkpoint.
  void begin_anew() {
    if (!checkpoint_) return;
    for (auto& each : workers_) bury(*each);
    workers_.clear();
    state_holders_.clear();
    const uint64_t step = checkpoint_->second.empty() ? 0 : checkpoint_->second.rbegin()->first;
    std::erase_if(told_, [&](const auto& told) { return told.first > step; });
    start();
    ASSERT_OK(workers_[0]->ledger->participant()->restore(checkpoint_->first));
    workers_[0]->history = checkpoint_->second;
    workers_[0]->label = {generation_, step};
    state_holders_ = {workers_[0]->self};
    change_world();
  }

  bool is_done() { return !members_.empty() && members_[0]->ledger->is_done(); }

  void check_equal() {
    for (const Worker* each : members_) {
      ASSERT_EQ(each->ledger->participant()->save(), members_[0]->ledger->participant()->save())
          << "seed " << seed_;
      ASSERT_EQ(each->label, members_[0]->label);
    }
  }

  void check_samples() {
    std::map<uint32_t, std::vector<int>> uses;
    std::vector<int> used(options_.samples);
    for (const auto& [step, ranges] : members_[0]->history) {
      for (const SampleRange& range : ranges) {
        auto& of_partition = uses[range.partition];
        if (of_partition.size() < range.end) of_partition.resize(range.end);
        for (uint64_t i = range.begin; i < range.end; ++i) ++of_partition[i];
      }
      const auto indices = members_[0]->ledger->sample_indices(ranges);
      ASSERT_OK(indices.status());
      for (const uint64_t index : *indices) ++used[index];
    }
    for (const auto& [partition, counts] : uses) {
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1),
                static_cast<std::ptrdiff_t>(counts.size()))
          << "partition " << partition << ", seed " << seed_;
    }
    EXPECT_EQ(std::count(used.begin(), used.end(), static_cast<int>(options_.epochs)),
              static_cast<std::ptrdiff_t>(used.size()))
        << "seed " << seed_;
  }

  void note_told(const CommittedStep& step) {
    const auto [place, added] = told_.emplace(step.step, step);
    EXPECT_EQ(place->second, step) << "all tell the same, seed " << seed_;
  }

  // The steps that living and dead members reported equal the committed ones.
  void check_told() {
    for (Worker* each : members_) each->ledger->participant()->stable(each->label.second);
    for (auto& each : workers_) bury(*each);
    for (const auto& [step, ranges] : members_[0]->history) {
      const auto told = told_.find(step);
      ASSERT_EQ(told != told_.end(), !ranges.empty()) << "step " << step << ", seed " << seed_;
      if (ranges.empty()) continue;
      std::vector<SampleRange> parts;
      for (const auto& part : told->second.parts) parts.push_back(part.range);
      EXPECT_EQ(parts, ranges) << "step " << step << ", seed " << seed_;
    }
    EXPECT_TRUE(told_.empty() || told_.rbegin()->first <= members_[0]->history.rbegin()->first);
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  LedgerOptions options_{};
  uint64_t incarnations_ = 0;
  uint64_t generation_ = 1;
  std::vector<std::unique_ptr<Worker>> workers_{};
  std::vector<Worker*> members_{};  // of the active world
  std::vector<Member> state_holders_{};
  std::optional<std::pair<std::vector<std::byte>, std::map<uint64_t, std::vector<SampleRange>>>>
      checkpoint_{};
  std::map<uint64_t, CommittedStep> told_{};
  int idle_steps_ = 0;
};

class LedgerWorlds : public ::testing::TestWithParam<SampleOrder> {};

TEST_P(LedgerWorlds, EachSampleIsCommittedOncePerEpoch) {
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) Job(seed, GetParam()).run();
}

INSTANTIATE_TEST_SUITE_P(Orders, LedgerWorlds,
                         ::testing::Values(SampleOrder::kOnDemand, SampleOrder::kGlobal));

}  // namespace
}  // namespace ffdl
