// Tests a ledger of one order with a batch size on which its members agree while it is used.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "data/ledger_text.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/tuning/batch_size.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using data::testing::text_of;

LedgerOptions one_order() {
  LedgerOptions options;
  options.samples = 20;
  options.partition_samples = 4;
  options.epochs = 2;
  options.shuffle = Shuffle::kNone;
  options.order = SampleOrder::kGlobal;
  options.batch_samples = 8;
  return options;
}

// A ledger of one order and the batch size by which its steps are cut.
struct Pair {
  explicit Pair(const LedgerOptions& options, uint64_t samples, bool batch_first = true,
                LedgerMemberOptions member = {})
      : batch(BatchSizeController::create(samples).value()) {
    member.batch_size_controller = [this] { return batch->samples(); };
    ledger = make_session_ledger(options, member).value();
    participants = {batch.get(), ledger->participant()};
    if (!batch_first) std::swap(participants[0], participants[1]);
  }

  std::unique_ptr<BatchSizeController> batch;
  std::unique_ptr<SampleLedger> ledger;
  std::vector<StepParticipant*> participants;
  Member self{};
};

std::string taken(const Pair& pair) { return text_of(pair.ledger->take().value()); }

// Runs one step of all members, in which each takes the samples that are due.
void step_together(std::vector<std::unique_ptr<Pair>>& all, uint64_t number) {
  for (const auto& pair : all) EXPECT_OK(pair->ledger->take());
  std::vector<std::vector<std::byte>> bytes(2);
  for (size_t i = 0; i < 2; ++i) {
    const size_t size = all[0]->participants[i]->record_bytes();
    bytes[i].resize(size * all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      all[rank]->participants[i]->write_record(std::span(bytes[i]).subspan(rank * size, size));
    }
  }
  for (const auto& pair : all) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t size = pair->participants[i]->record_bytes();
      pair->participants[i]->applied(number, StepRecords(bytes[i], size, size));
    }
    for (StepParticipant* participant : pair->participants) participant->stable(number);
  }
}

void enter_world(std::vector<std::unique_ptr<Pair>>& all) {
  World world;
  for (const auto& pair : all) world.members.push_back(pair->self);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    world.rank = static_cast<int>(rank);
    for (StepParticipant* participant : all[rank]->participants) {
      participant->world_changed(world);
    }
  }
}

TEST(LedgerBatches, AStepHasTheBatchThatIsAgreed) {
  std::vector<std::unique_ptr<Pair>> all;
  for (const char* id : {"a", "b"}) {
    all.push_back(std::make_unique<Pair>(one_order(), 8));
    all.back()->self = {id, 1};
  }
  enter_world(all);
  EXPECT_EQ(taken(*all[0]), "0:0-4");
  all[1]->batch->want(6, 2);
  step_together(all, 1);
  EXPECT_EQ(all[0]->ledger->batch_samples(), 6U);
  EXPECT_EQ(taken(*all[0]), "2:0-3") << "the step after the one that told it";
  EXPECT_EQ(taken(*all[1]), "2:3-4 3:0-2");
  EXPECT_EQ(all[0]->ledger->shares(), (std::vector<uint64_t>{3, 3}));
}

TEST(LedgerBatches, ABatchThatIsAgreedTooLateIsTold) {
  std::vector<std::unique_ptr<Pair>> all;
  all.push_back(std::make_unique<Pair>(one_order(), 8, false));
  all.back()->self = {"a", 1};
  enter_world(all);
  all[0]->batch->want(6, 1);
  step_together(all, 1);
  EXPECT_FAILS(all[0]->ledger->take(), StatusCode::kInvalidArgument,
               "put the BatchSizeController before the ledger");
}

// Simulates members that join, leave and request batch sizes at random.
class BatchJob {
 public:
  explicit BatchJob(uint32_t seed) : random_(seed), options_(one_order()) {
    options_.samples = 30 + below(100);
    options_.partition_samples = 1 + below(12);
    options_.shuffle = Shuffle::kSamples;
    options_.seed = seed;
    options_.micro_batch_samples = 1 + below(3);
    options_.batch_samples = options_.micro_batch_samples * 4;
  }

  // Trains to the end. Returns how often the batch size changed.
  int run() {
    int changes = 0;
    join();
    for (uint64_t step = 1; !all_[0]->ledger->is_done() && step < 2000; ++step) {
      if (below(5) == 0 && lives_ < 20) join();
      if (below(7) == 0 && all_.size() > 1) {
        all_.erase(all_.begin() + static_cast<ptrdiff_t>(below(all_.size())));
        enter_world(all_);
      }
      if (below(3) == 0) {
        const auto members = static_cast<int>(all_.size() + below(2));
        all_[below(all_.size())]->batch->want(1 + below(30), members);
      }
      const uint64_t before = all_[0]->ledger->batch_samples();
      step_together(all_, step);
      changes += all_[0]->ledger->batch_samples() != before ? 1 : 0;
      for (const auto& pair : all_) {
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(pair->participants[i]->save(), all_[0]->participants[i]->save());
        }
      }
    }
    return changes;
  }

  // Returns the committed samples in their order.
  std::vector<uint64_t> sequence() const {
    std::vector<uint64_t> all;
    for (const auto& [number, step] : told_) {
      std::vector<SampleRange> ranges;
      for (const auto& part : step.parts) ranges.push_back(part.range);
      const auto indices = all_[0]->ledger->sample_indices(ranges).value();
      all.insert(all.end(), indices.begin(), indices.end());
    }
    return all;
  }

  // Returns the samples of one member with the initial batch size, in their order.
  std::vector<uint64_t> sequence_alone() const {
    const auto ledger = make_session_ledger(options_).value();
    World world;
    world.rank = 0;
    world.members = {{"z", 1, ""}};
    ledger->participant()->world_changed(world);
    std::vector<uint64_t> all;
    for (uint64_t step = 1; !ledger->is_done(); ++step) {
      const auto indices = ledger->sample_indices(ledger->take().value()).value();
      all.insert(all.end(), indices.begin(), indices.end());
      std::vector<std::byte> record(ledger->participant()->record_bytes());
      ledger->participant()->write_record(record);
      ledger->participant()->applied(step, StepRecords(record, record.size(), record.size()));
    }
    return all;
  }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }

  void join() {
    LedgerMemberOptions member;
    member.on_stable = [this](const CommittedStep& step) { told_[step.step] = step; };
    auto pair = std::make_unique<Pair>(options_, options_.batch_samples, true, member);
    pair->self = {std::string(1, static_cast<char>('a' + lives_)), lives_ + 1, ""};
    ++lives_;
    if (!all_.empty()) {
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_OK(pair->participants[i]->restore(all_[0]->participants[i]->save()));
      }
    }
    all_.push_back(std::move(pair));
    enter_world(all_);
  }

  std::mt19937 random_;
  LedgerOptions options_;
  uint64_t lives_ = 0;
  std::map<uint64_t, CommittedStep> told_;
  std::vector<std::unique_ptr<Pair>> all_;
};

// All members have equal states. The sequence of samples equals that of one member with one batch
// size.
TEST(LedgerBatches, WhateverIsAgreedTheOrderStays) {
  int changes = 0;
  for (uint32_t seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    BatchJob job(seed);
    changes += job.run();
    EXPECT_EQ(job.sequence(), job.sequence_alone());
  }
  EXPECT_GT(changes, 100);
}

}  // namespace
}  // namespace ffdl
