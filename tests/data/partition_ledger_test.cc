#include "ffdl/partition_ledger.h"

#include <algorithm>
#include <cstring>

#include "data/ledger_text.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using data::testing::members;
using data::testing::text_of;

PartitionLedgerOptions options() {
  return {.samples = 20, .partition_samples = 4, .epochs = 2, .shuffle = Shuffle::kNone};
}

PartitionLedgerOptions in_one_order() {
  PartitionLedgerOptions global = options();
  global.order = SampleOrder::kGlobal;
  global.batch_samples = 8;
  return global;
}

std::unique_ptr<PartitionLedger> make(const PartitionLedgerOptions& options) {
  auto ledger = PartitionLedger::create(options);
  EXPECT_OK(ledger.status());
  return std::move(ledger).value();
}

World world_of(const std::string& text, int rank) {
  World world;
  world.rank = rank;
  world.members = members(text);
  return world;
}

std::string take(PartitionLedger& ledger, uint64_t count = PartitionLedger::kAll) {
  const auto ranges = ledger.take(count);
  EXPECT_OK(ranges.status());
  return ranges.ok() ? text_of(*ranges) : "";
}

// The members of one world, who do steps together.
class Members {
 public:
  Members(const std::string& text, std::vector<PartitionLedgerOptions> options) {
    int rank = 0;
    for (const auto& each : options) {
      ledgers_.push_back(make(each));
      ledgers_.back()->world_changed(world_of(text, rank++));
    }
    bytes_.resize(ledgers_.size() * stride());
  }

  PartitionLedger& operator[](size_t rank) { return *ledgers_[rank]; }
  size_t stride() const { return ledgers_[0]->record_bytes() + 5; }
  std::span<std::byte> record(size_t rank) {
    return std::span(bytes_).subspan(rank * stride(), ledgers_[0]->record_bytes());
  }
  StepRecords records() { return {bytes_, ledgers_[0]->record_bytes(), stride()}; }

  void describe() {
    for (size_t rank = 0; rank < ledgers_.size(); ++rank) ledgers_[rank]->describe(record(rank));
  }
  void apply(uint64_t step) {
    for (auto& ledger : ledgers_) ledger->applied(step, records());
  }
  void step(uint64_t number) {
    describe();
    apply(number);
  }

 private:
  std::vector<std::unique_ptr<PartitionLedger>> ledgers_;
  std::vector<std::byte> bytes_;
};

TEST(PartitionLedger, RefusesOptionsThatMakeNoSense) {
  const auto refuse = [](auto change, const char* text) {
    PartitionLedgerOptions changed = options();
    change(changed);
    EXPECT_FAILS(PartitionLedger::create(changed), StatusCode::kInvalidArgument, text);
  };
  refuse([](auto& o) { o.samples = 0; }, "samples is 0");
  refuse([](auto& o) { o.samples = (uint64_t{1} << 48) + 1; }, "samples is 281474976710657");
  refuse([](auto& o) { o.partition_samples = 0; }, "partition_samples is 0");
  refuse([](auto& o) { o.partition_samples = (uint64_t{1} << 32) + 1; }, "partition_samples");
  refuse(
      [](auto& o) {
        o.samples = uint64_t{1} << 32;
        o.partition_samples = 1;
      },
      "at most 4294967295 partitions");
  refuse([](auto& o) { o.epochs = (uint64_t{1} << 31) + 1; }, "epochs");
  refuse([](auto& o) { o.window_partitions = 2; }, "window_partitions is 2 and samples are not");
  refuse(
      [](auto& o) {
        o.shuffle = Shuffle::kPartitions;
        o.window_partitions = 3;
      },
      "window_partitions is 3");
  refuse(
      [](auto& o) {
        o.shuffle = Shuffle::kSamples;
        o.window_partitions = 0;
      },
      "window_partitions is 0 and samples are shuffled; give 1, or more");
  refuse([](auto& o) { o.batch_samples = 8; }, "no meaning on demand");
  refuse([](auto& o) { o.agreed_batch = [] { return uint64_t{8}; }; }, "no meaning on demand");
  refuse([](auto& o) { o.order = SampleOrder::kGlobal; }, "batch_samples is 0");
  refuse(
      [](auto& o) {
        o.order = SampleOrder::kGlobal;
        o.batch_samples = 10;
        o.micro_batch_samples = 4;
      },
      "multiple");
}

TEST(PartitionLedger, AStepCommitsWhatItsMembersTook) {
  Members all("a b", {options(), options()});
  EXPECT_EQ(take(all[0], 3), "0:0-3");
  EXPECT_EQ(take(all[1]), "1:0-4");
  EXPECT_EQ(all[0].taken(), 3U);
  all.step(1);
  EXPECT_EQ(all[0].taken(), 0U);
  EXPECT_EQ(all[1].committed(), 7U);
  EXPECT_EQ(take(all[0], 3), "0:3-4 3:0-2") << "a batch may span partitions";
  EXPECT_EQ(take(all[1], 0), "");
  all.step(2);
  EXPECT_EQ(all[1].committed(), 10U);
  EXPECT_EQ(text_of(all[0].leases()), "3:2-4");
  EXPECT_EQ(text_of(all[1].leases()), "2:0-4 4:0-4");
  EXPECT_EQ(all[0].save(), all[1].save());
}

TEST(PartitionLedger, AskedAgainItGivesTheSame) {
  Members all("a b", {options(), options()});
  EXPECT_EQ(take(all[0], 3), "0:0-3");
  EXPECT_EQ(take(all[0], 2), "0:0-2") << "the last answer is what the step commits";
  all.describe();
  all.describe();
  all.apply(1);
  EXPECT_EQ(all[0].committed(), 2U);
  EXPECT_EQ(take(all[0], 3), "0:2-4 2:0-1");
}

TEST(PartitionLedger, TrainsForAllEpochsAndThenIsDone) {
  PartitionLedgerOptions many = options();
  many.partitions_wanted = 5;
  Members all("a b c", {options(), many, options()});
  uint64_t step = 0;
  for (; !all[0].is_done(); ++step) {
    ASSERT_LT(step, 40U);
    for (size_t rank = 0; rank < 3; ++rank) static_cast<void>(take(all[rank], 1 + rank));
    const uint64_t epoch = all[0].epoch();
    all.step(step);
    for (size_t rank = 1; rank < 3; ++rank) EXPECT_EQ(all[rank].epoch(), all[0].epoch());
    if (all[0].epoch() != epoch) {
      EXPECT_EQ(all[0].committed(), 0U);
    }
  }
  EXPECT_EQ(all[0].epoch(), 2U);
  EXPECT_EQ(take(all[0]), "");
  EXPECT_EQ(all[1].save(), all[0].save());
}

TEST(PartitionLedger, HoldsAsManyPartitionsAsItWants) {
  Members all("a b", {options(), options()});
  all[0].want(3);
  all[1].want(0);
  all.step(1);
  EXPECT_EQ(text_of(all[0].leases()), "0:0-4 2:0-4 3:0-4");
  EXPECT_EQ(text_of(all[1].leases()), "1:0-4");
  all[0].want(-7);
  all[1].want(1'000'000'000);
  all.step(2);
  EXPECT_EQ(text_of(all[1].leases()), "1:0-4 4:0-4") << "no more are left";
}

// As a static split would let it wait: twice the steps. Here the fast one takes what the slow one
// would have had, and the end of the epoch is shared out.
TEST(PartitionLedger, AFastMemberDoesTheMostOfAnEpoch) {
  const PartitionLedgerOptions large = {.samples = 200'000, .partition_samples = 4096};
  Members both("f s", {large, large});
  uint64_t steps = 0;
  uint64_t fast = 0;
  for (; !both[0].is_done(); ++steps) {
    ASSERT_OK(both[0].take(192).status());
    ASSERT_OK(both[1].take(64).status());
    fast += both[0].taken();
    both.step(steps + 1);
  }
  EXPECT_LE(steps, (200'000 / 256) * 105 / 100);
  EXPECT_NEAR(static_cast<double>(fast), 150'000, 7'500);
}

// In the middle of an epoch, with all that it needs in what one of three members has saved.
TEST(PartitionLedger, GoesOnWithAnotherNumberOfMembers) {
  const PartitionLedgerOptions large = {
      .samples = 100'003, .partition_samples = 512, .seed = 3, .shuffle = Shuffle::kSamples};
  for (const char* const after : {"d", "d e", "a d e f g"}) {
    std::vector<int> used(large.samples);
    const auto step = [&](Members& all, size_t count, uint64_t number) {
      for (size_t rank = 0; rank < count; ++rank) {
        const auto ranges = all[rank].take(100 + 20 * rank);
        ASSERT_OK(ranges.status());
        const auto indices = all[rank].sample_indices(*ranges);
        ASSERT_OK(indices.status());
        for (const uint64_t index : *indices) ++used[index];
      }
      all.step(number);
    };
    Members before("a b c", {large, large, large});
    uint64_t number = 0;
    while (number < 101) step(before, 3, ++number);
    ASSERT_GT(before[0].committed(), 0U);
    const std::vector<std::byte> saved = before[2].save();
    EXPECT_LE(saved.size(), 1024U);

    const size_t count = members(after).size();
    Members then(after, std::vector(count, large));
    for (size_t rank = 0; rank < count; ++rank) {
      ASSERT_OK(then[rank].restore(saved));
      then[rank].world_changed(world_of(after, static_cast<int>(rank)));
      EXPECT_EQ(then[rank].committed(), before[0].committed());
    }
    while (!then[0].is_done()) step(then, count, ++number);
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), 100'003) << "with " << after;
  }
}

TEST(PartitionLedger, WhoIsNoMemberHasNothing) {
  const auto ledger = make(options());
  EXPECT_EQ(take(*ledger), "") << "no world yet";
  ledger->world_changed(world_of("a b", -1));
  EXPECT_EQ(take(*ledger), "");
  EXPECT_TRUE(ledger->leases().empty());
  ledger->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*ledger), "1:0-4");
}

// What is taken stays right when others come and go, unless it is another member's now.
TEST(PartitionLedger, AfterAChangeOfTheWorldOnlyWhatIsStillItsOwnCounts) {
  const auto ledger = make(options());
  ledger->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*ledger, 3), "1:0-3");
  ledger->world_changed(world_of("b c", 0));
  EXPECT_EQ(ledger->taken(), 3U);
  EXPECT_TRUE(ledger->is_contribution_due());
  ledger->world_changed(world_of("c", -1));
  EXPECT_EQ(ledger->taken(), 0U);
  EXPECT_FALSE(ledger->is_contribution_due());
  ledger->world_changed(world_of("b c", 0));
  EXPECT_FALSE(ledger->is_contribution_due()) << "worlds that follow change nothing of that";
  EXPECT_EQ(take(*ledger, 3), "1:0-3");
  EXPECT_TRUE(ledger->is_contribution_due());

  const auto restored = make(options());
  const auto beginning = restored->save();
  restored->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*restored, 3), "1:0-3");
  ASSERT_OK(restored->restore(beginning));
  restored->world_changed(world_of("a b", 1));
  EXPECT_FALSE(restored->is_contribution_due()) << "the job began anew: it would commit nothing";

  const auto cut = make(in_one_order());
  cut->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*cut), "1:0-4");
  cut->world_changed(world_of("a b c", 1));
  EXPECT_EQ(cut->taken(), 0U);
  EXPECT_FALSE(cut->is_contribution_due());
  EXPECT_EQ(take(*cut), "0:3-4 1:0-2");
  EXPECT_TRUE(cut->is_contribution_due());
}

// Its share has grown by that of who is gone: with what it took the batch would not be whole.
TEST(PartitionLedger, InOneOrderAStepIsMadeAgainWithTheWholeBatch) {
  const auto ledger = make(in_one_order());
  ledger->world_changed(world_of("a b", 0));
  EXPECT_EQ(take(*ledger), "0:0-4");
  ledger->world_changed(world_of("a", 0));
  EXPECT_FALSE(ledger->is_contribution_due());
  EXPECT_EQ(take(*ledger), "0:0-4 1:0-4");
  ledger->world_changed(world_of("a", 0));
  EXPECT_TRUE(ledger->is_contribution_due());
}

TEST(PartitionLedger, ARestoredStateKnowsWhichMemberThisIs) {
  Members all("a b", {options(), options()});
  const auto before = all[1].save();
  static_cast<void>(take(all[1], 4));
  all.step(1);
  EXPECT_EQ(take(all[1]), "2:0-4 4:0-4");
  ASSERT_OK(all[1].restore(before));
  EXPECT_EQ(all[1].taken(), 0U) << "that was of another state";
  EXPECT_EQ(take(all[1]), "1:0-4");
  EXPECT_EQ(all[1].save(), before);
  all[1].world_changed(world_of("b a", 0));
  ASSERT_OK(all[1].restore(before));
  EXPECT_EQ(take(all[1]), "1:0-4") << "it was rank 1 there";
  const auto bytes = all[0].save();
  EXPECT_FAILS(all[1].restore(std::span(bytes).first(20)), StatusCode::kCorrupt, "");
  EXPECT_EQ(all[1].save(), before);
}

TEST(PartitionLedger, OtherOptionsAreFoundInTheFirstStep) {
  PartitionLedgerOptions same = options();
  same.shuffle = Shuffle::kSamples;
  PartitionLedgerOptions more_epochs = same;
  more_epochs.epochs = 3;
  PartitionLedgerOptions wider = same;
  wider.window_partitions = 2;
  for (const PartitionLedgerOptions& other : {more_epochs, wider}) {
    Members all("a b", {same, other});
    static_cast<void>(take(all[0]));
    static_cast<void>(take(all[1]));
    all.step(1);
    EXPECT_FAILS(all[0].take(), StatusCode::kInvalidArgument, "'b': it has other options");
    EXPECT_FAILS(all[1].take(), StatusCode::kInvalidArgument, "'a': it has other options");
  }
}

TEST(PartitionLedger, RecordsThatDoNotFitClaimNothing) {
  for (size_t at = 0; at < 32; ++at) {
    Members all("a b c", {options(), options(), options()});
    for (size_t rank = 0; rank < 3; ++rank) static_cast<void>(take(all[rank], 2));
    all.describe();
    all.record(1)[at] ^= std::byte{1};
    all.apply(1);
    const bool is_wish = at >= 24;  // how many partitions it wants may be anything
    EXPECT_EQ(all[0].committed(), is_wish ? 6U : 4U) << at;
    EXPECT_EQ(all[0].take().ok(), is_wish) << at;
    EXPECT_EQ(all[0].save(), all[2].save());
  }
}

TEST(PartitionLedger, RecordsOfAnotherWorldClaimNothing) {
  Members all("a b", {options(), options()});
  static_cast<void>(take(all[0]));
  all.describe();
  all[0].world_changed(world_of("a b c", 0));
  all[0].applied(1, all.records());
  EXPECT_EQ(all[0].committed(), 0U);
  EXPECT_FAILS(all[0].take(), StatusCode::kInternal, "2 records of 3 members");
}

TEST(PartitionLedger, ARestoredStateEndsAFailure) {
  Members all("a b", {options(), options()});
  const auto before = all[0].save();
  all.describe();
  std::fill(all.record(1).begin(), all.record(1).end(), std::byte{0xff});
  all.apply(1);
  EXPECT_FAILS(all[0].take(), StatusCode::kInvalidArgument, "other options");
  ASSERT_OK(all[0].restore(before));
  EXPECT_EQ(take(all[0]), "0:0-4");
}

class Told {
 public:
  PartitionLedgerOptions options() {
    PartitionLedgerOptions told = ffdl::options();
    told.on_stable = [this](const CommittedStep& step) {
      text_ += std::to_string(step.step) + '(';
      for (const auto& part : step.parts) text_ += part.member.id + text_of({part.range}) + ' ';
      text_ += ") ";
    };
    return told;
  }
  std::string text() { return std::exchange(text_, ""); }

 private:
  std::string text_;
};

TEST(PartitionLedger, TellsWhatIsStableInOrder) {
  Told told;
  Members all("a b", {told.options(), options()});
  static_cast<void>(take(all[0], 1));
  static_cast<void>(take(all[1], 2));
  all.step(1);
  static_cast<void>(take(all[0], 4));
  all.step(2);
  EXPECT_EQ(told.text(), "");
  all[0].stable(0);
  EXPECT_EQ(told.text(), "");
  all[0].stable(1);
  EXPECT_EQ(told.text(), "1(a0:0-1 b1:0-2 ) ");
  all.step(3);
  all[0].stable(1);
  EXPECT_EQ(told.text(), "");
  all[0].stable(3);
  EXPECT_EQ(told.text(), "2(a0:1-4 a2:0-1 ) ") << "nothing was committed in step 3";
  all[0].stable(3);
  EXPECT_EQ(told.text(), "");
}

TEST(PartitionLedger, AStepThatWasTakenBackIsNotTold) {
  Told told;
  Members all("a b", {told.options(), options()});
  static_cast<void>(take(all[1], 2));
  all.step(1);
  const auto first = all[1].save();
  static_cast<void>(take(all[0], 1));
  all.describe();
  all[0].applied(2, all.records());
  ASSERT_OK(all[0].restore(first));
  all[0].stable(1);
  EXPECT_EQ(told.text(), "1(b1:0-2 ) ") << "who is healed to a step tells it too";
  ASSERT_OK(all[0].restore(first));
  all[0].stable(1);
  EXPECT_EQ(told.text(), "") << "once";
}

TEST(PartitionLedger, WhoBeginsAnewTellsItsStepsAgain) {
  Told told;
  Members all("a", {told.options()});
  all.step(1);
  const auto checkpoint = all[0].save();
  static_cast<void>(take(all[0], 1));
  all.step(2);
  all[0].stable(2);
  EXPECT_EQ(told.text(), "2(a0:0-1 ) ");
  ASSERT_OK(all[0].restore(checkpoint));
  static_cast<void>(take(all[0], 2));
  all.step(2);
  all[0].stable(2);
  EXPECT_EQ(told.text(), "2(a0:0-2 ) ");
}

TEST(PartitionLedger, TellsTheLineageOfItsWorld) {
  std::vector<uint64_t> lineages;
  PartitionLedgerOptions telling = options();
  telling.on_stable = [&](const CommittedStep& step) { lineages.push_back(step.lineage); };
  Members all("a", {telling});
  World world = world_of("a", 0);
  for (uint64_t step = 1; step <= 2; ++step) {
    world.lineage = step + 3;
    all[0].world_changed(world);
    static_cast<void>(take(all[0], 1));
    all.step(step);
    all[0].stable(step);
  }
  EXPECT_EQ(lineages, (std::vector<uint64_t>{4, 5}));
}

TEST(PartitionLedger, WantsAsManyPartitionsAsItsBatchSpans) {
  Members all("a", {options()});
  EXPECT_EQ(take(all[0], 10), "0:0-4");
  all.step(1);
  EXPECT_EQ(take(all[0], 10), "1:0-4 2:0-4 3:0-2") << "and one more to read ahead";
  EXPECT_EQ(text_of(all[0].leases()), "1:0-4 2:0-4 3:0-4 4:0-4");
  all[0].want(0);
  all.step(2);
  EXPECT_EQ(text_of(all[0].leases()), "3:2-4 4:0-4");
}

TEST(PartitionLedger, StepsThatNeverGetStableAreAnError) {
  Told told;
  PartitionLedgerOptions one = told.options();
  one.epochs = 0;
  Members all("a", {one});
  uint64_t step = 0;
  for (; all[0].take(1).ok(); ++step) {
    ASSERT_LT(step, 100U);
    all.step(step);
  }
  EXPECT_FAILS(all[0].take(1), StatusCode::kExhausted, "64 steps wait for stable()");
}

TEST(PartitionLedger, SamplesOfRanges) {
  PartitionLedgerOptions shuffled = options();
  shuffled.samples = 10;
  shuffled.shuffle = Shuffle::kSamples;
  const auto ledger = make(shuffled);
  const std::vector<SampleRange> epoch = {{2, 2, 4}, {0, 4, 8}, {1, 4, 8}};
  ASSERT_OK_AND_ASSIGN(auto indices, ledger->sample_indices(epoch));
  EXPECT_TRUE(std::all_of(indices.begin(), indices.begin() + 2, [](auto i) { return i >= 8; }));
  std::sort(indices.begin(), indices.end());
  EXPECT_EQ(indices, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (const SampleRange& wrong : {SampleRange{3, 0, 1}, {0, 3, 5}, {0, 4, 3}}) {
    EXPECT_FAILS(ledger->sample_indices(std::span(&wrong, 1)), StatusCode::kInvalidArgument,
                 "none within one epoch");
  }
}

}  // namespace
}  // namespace ffdl
