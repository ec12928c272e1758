#include <algorithm>
#include <cstring>

#include "data/ledger_text.h"
#include "ffdl/data/sample_ledger.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using data::testing::members;
using data::testing::text_of;

LedgerOptions options() {
  return {.samples = 20, .partition_samples = 4, .epochs = 2, .shuffle = Shuffle::kNone};
}

LedgerOptions in_one_order() {
  LedgerOptions global = options();
  global.order = SampleOrder::kGlobal;
  global.batch_samples = 8;
  return global;
}

std::unique_ptr<SampleLedger> make(const LedgerOptions& options,
                                   const LedgerMemberOptions& member = {}) {
  auto ledger = make_session_ledger(options, member);
  EXPECT_OK(ledger.status());
  return std::move(ledger).value();
}

World world_of(const std::string& text, int rank) {
  World world;
  world.rank = rank;
  world.members = members(text);
  return world;
}

std::string take(SampleLedger& ledger, uint64_t count = SampleLedger::kAll) {
  const auto ranges = ledger.take(count);
  EXPECT_OK(ranges.status());
  return ranges.ok() ? text_of(*ranges) : "";
}

// Runs the members of one world, which do steps together.
class Members {
 public:
  // `first`: the member options of rank 0.
  Members(const std::string& text, std::vector<LedgerOptions> options,
          const LedgerMemberOptions& first = {}) {
    int rank = 0;
    for (const auto& each : options) {
      ledgers_.push_back(make(each, rank == 0 ? first : LedgerMemberOptions()));
      ledgers_.back()->participant()->world_changed(world_of(text, rank++));
    }
    bytes_.resize(ledgers_.size() * stride());
  }

  SampleLedger& operator[](size_t rank) { return *ledgers_[rank]; }
  size_t stride() const { return ledgers_[0]->participant()->record_bytes() + 5; }
  std::span<std::byte> record(size_t rank) {
    return std::span(bytes_).subspan(rank * stride(), ledgers_[0]->participant()->record_bytes());
  }
  StepRecords records() { return {bytes_, ledgers_[0]->participant()->record_bytes(), stride()}; }

  void describe() {
    for (size_t rank = 0; rank < ledgers_.size(); ++rank)
      ledgers_[rank]->participant()->write_record(record(rank));
  }
  void apply(uint64_t step) {
    for (auto& ledger : ledgers_) ledger->participant()->applied(step, records());
  }
  void step(uint64_t number) {
    describe();
    apply(number);
  }

 private:
  std::vector<std::unique_ptr<SampleLedger>> ledgers_;
  std::vector<std::byte> bytes_;
};

TEST(SessionLedger, RefusesOptionsThatMakeNoSense) {
  const auto refuse = [](auto change, const char* text) {
    LedgerOptions changed = options();
    change(changed);
    EXPECT_FAILS(make_session_ledger(changed), StatusCode::kInvalidArgument, text);
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
  refuse([](auto& o) { o.batch_samples = 8; }, "no effect with SampleOrder::kOnDemand");
  EXPECT_FAILS(
      make_session_ledger(options(), {.batch_size_controller = [] { return uint64_t{8}; }}),
      StatusCode::kInvalidArgument, "no effect with SampleOrder::kOnDemand");
  refuse([](auto& o) { o.order = SampleOrder::kGlobal; }, "batch_samples is 0");
  refuse(
      [](auto& o) {
        o.order = SampleOrder::kGlobal;
        o.batch_samples = 10;
        o.micro_batch_samples = 4;
      },
      "multiple");
}

TEST(SessionLedger, AStepCommitsWhatItsMembersTook) {
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
  EXPECT_EQ(all[0].participant()->save(), all[1].participant()->save());
}

TEST(SessionLedger, HoldsAsManyPartitionsAsItWants) {
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

// A static split would take twice the steps. The fast member takes the samples that the slow one
// would have had. The end of the epoch is shared.
TEST(SessionLedger, AFastMemberDoesTheMostOfAnEpoch) {
  const LedgerOptions large = {.samples = 200'000, .partition_samples = 4096};
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

// The state that one of three members saved in the middle of an epoch is sufficient.
TEST(SessionLedger, GoesOnWithAnotherNumberOfMembers) {
  const LedgerOptions large = {
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
    const std::vector<std::byte> saved = before[2].participant()->save();
    EXPECT_LE(saved.size(), 1024U);

    const size_t count = members(after).size();
    Members then(after, std::vector(count, large));
    for (size_t rank = 0; rank < count; ++rank) {
      ASSERT_OK(then[rank].participant()->restore(saved));
      then[rank].participant()->world_changed(world_of(after, static_cast<int>(rank)));
      EXPECT_EQ(then[rank].committed(), before[0].committed());
    }
    while (!then[0].is_done()) step(then, count, ++number);
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), 100'003) << "with " << after;
  }
}

TEST(SessionLedger, WhoIsNoMemberHasNothing) {
  const auto ledger = make(options());
  EXPECT_EQ(take(*ledger), "") << "no world yet";
  ledger->participant()->world_changed(world_of("a b", -1));
  EXPECT_EQ(take(*ledger), "");
  EXPECT_TRUE(ledger->leases().empty());
  ledger->participant()->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*ledger), "1:0-4");
}

// Taken samples stay valid when other members join and leave, unless another member has them now.
TEST(SessionLedger, AfterAChangeOfTheWorldOnlyWhatIsStillItsOwnCounts) {
  const auto ledger = make(options());
  ledger->participant()->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*ledger, 3), "1:0-3");
  ledger->participant()->world_changed(world_of("b c", 0));
  EXPECT_EQ(ledger->taken(), 3U);
  EXPECT_TRUE(ledger->participant()->is_contribution_due());
  ledger->participant()->world_changed(world_of("c", -1));
  EXPECT_EQ(ledger->taken(), 0U);
  EXPECT_FALSE(ledger->participant()->is_contribution_due());
  ledger->participant()->world_changed(world_of("b c", 0));
  EXPECT_FALSE(ledger->participant()->is_contribution_due())
      << "worlds that follow change nothing of that";
  EXPECT_EQ(take(*ledger, 3), "1:0-3");
  EXPECT_TRUE(ledger->participant()->is_contribution_due());

  const auto restored = make(options());
  const auto beginning = restored->participant()->save();
  restored->participant()->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*restored, 3), "1:0-3");
  ASSERT_OK(restored->participant()->restore(beginning));
  restored->participant()->world_changed(world_of("a b", 1));
  EXPECT_FALSE(restored->participant()->is_contribution_due())
      << "the job began anew: it would commit nothing";

  const auto cut = make(in_one_order());
  cut->participant()->world_changed(world_of("a b", 1));
  EXPECT_EQ(take(*cut), "1:0-4");
  cut->participant()->world_changed(world_of("a b c", 1));
  EXPECT_EQ(cut->taken(), 0U);
  EXPECT_FALSE(cut->participant()->is_contribution_due());
  EXPECT_EQ(take(*cut), "0:3-4 1:0-2");
  EXPECT_TRUE(cut->participant()->is_contribution_due());
}

// Its share has grown by that of the lost member. With only the taken samples the batch would be
// incomplete.
TEST(SessionLedger, InOneOrderAStepIsMadeAgainWithTheWholeBatch) {
  const auto ledger = make(in_one_order());
  ledger->participant()->world_changed(world_of("a b", 0));
  EXPECT_EQ(take(*ledger), "0:0-4");
  ledger->participant()->world_changed(world_of("a", 0));
  EXPECT_FALSE(ledger->participant()->is_contribution_due());
  EXPECT_EQ(take(*ledger), "0:0-4 1:0-4");
  ledger->participant()->world_changed(world_of("a", 0));
  EXPECT_TRUE(ledger->participant()->is_contribution_due());
}

TEST(SessionLedger, ARestoredStateKnowsWhichMemberThisIs) {
  Members all("a b", {options(), options()});
  const auto before = all[1].participant()->save();
  static_cast<void>(take(all[1], 4));
  all.step(1);
  EXPECT_EQ(take(all[1]), "2:0-4 4:0-4");
  ASSERT_OK(all[1].participant()->restore(before));
  EXPECT_EQ(all[1].taken(), 0U) << "that was of another state";
  EXPECT_EQ(take(all[1]), "1:0-4");
  EXPECT_EQ(all[1].participant()->save(), before);
  all[1].participant()->world_changed(world_of("b a", 0));
  ASSERT_OK(all[1].participant()->restore(before));
  EXPECT_EQ(take(all[1]), "1:0-4") << "it was rank 1 there";
  const auto bytes = all[0].participant()->save();
  EXPECT_FAILS(all[1].participant()->restore(std::span(bytes).first(20)), StatusCode::kCorrupt, "");
  EXPECT_EQ(all[1].participant()->save(), before);
}

TEST(SessionLedger, OtherOptionsAreFoundInTheFirstStep) {
  LedgerOptions same = options();
  same.shuffle = Shuffle::kSamples;
  LedgerOptions more_epochs = same;
  more_epochs.epochs = 3;
  LedgerOptions wider = same;
  wider.window_partitions = 2;
  for (const LedgerOptions& other : {more_epochs, wider}) {
    Members all("a b", {same, other});
    static_cast<void>(take(all[0]));
    static_cast<void>(take(all[1]));
    all.step(1);
    EXPECT_FAILS(all[0].take(), StatusCode::kInvalidArgument, "'b': its LedgerOptions differ");
    EXPECT_FAILS(all[1].take(), StatusCode::kInvalidArgument, "'a': its LedgerOptions differ");
  }
}

TEST(SessionLedger, RecordsThatDoNotFitClaimNothing) {
  for (size_t at = 0; at < 32; ++at) {
    Members all("a b c", {options(), options(), options()});
    for (size_t rank = 0; rank < 3; ++rank) static_cast<void>(take(all[rank], 2));
    all.describe();
    all.record(1)[at] ^= std::byte{1};
    all.apply(1);
    const bool is_wish = at >= 24;  // any number of wanted partitions is valid
    EXPECT_EQ(all[0].committed(), is_wish ? 6U : 4U) << at;
    EXPECT_EQ(all[0].take().ok(), is_wish) << at;
    EXPECT_EQ(all[0].participant()->save(), all[2].participant()->save());
  }
}

TEST(SessionLedger, RecordsOfAnotherWorldClaimNothing) {
  Members all("a b", {options(), options()});
  static_cast<void>(take(all[0]));
  all.describe();
  all[0].participant()->world_changed(world_of("a b c", 0));
  all[0].participant()->applied(1, all.records());
  EXPECT_EQ(all[0].committed(), 0U);
  EXPECT_FAILS(all[0].take(), StatusCode::kInternal, "2 records of 3 members");
}

TEST(SessionLedger, ARestoredStateEndsAFailure) {
  Members all("a b", {options(), options()});
  const auto before = all[0].participant()->save();
  all.describe();
  std::fill(all.record(1).begin(), all.record(1).end(), std::byte{0xff});
  all.apply(1);
  EXPECT_FAILS(all[0].take(), StatusCode::kInvalidArgument, "its LedgerOptions differ");
  ASSERT_OK(all[0].participant()->restore(before));
  EXPECT_EQ(take(all[0]), "0:0-4");
}

class Told {
 public:
  LedgerMemberOptions options() {
    LedgerMemberOptions told;
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

TEST(SessionLedger, TellsWhatIsStableInOrder) {
  Told told;
  Members all("a b", {options(), options()}, told.options());
  static_cast<void>(take(all[0], 1));
  static_cast<void>(take(all[1], 2));
  all.step(1);
  static_cast<void>(take(all[0], 4));
  all.step(2);
  EXPECT_EQ(told.text(), "");
  all[0].participant()->stable(0);
  EXPECT_EQ(told.text(), "");
  all[0].participant()->stable(1);
  EXPECT_EQ(told.text(), "1(a0:0-1 b1:0-2 ) ");
  all.step(3);
  all[0].participant()->stable(1);
  EXPECT_EQ(told.text(), "");
  all[0].participant()->stable(3);
  EXPECT_EQ(told.text(), "2(a0:1-4 a2:0-1 ) ") << "nothing was committed in step 3";
  all[0].participant()->stable(3);
  EXPECT_EQ(told.text(), "");
}

TEST(SessionLedger, AStepThatWasTakenBackIsNotTold) {
  Told told;
  Members all("a b", {options(), options()}, told.options());
  static_cast<void>(take(all[1], 2));
  all.step(1);
  const auto first = all[1].participant()->save();
  static_cast<void>(take(all[0], 1));
  all.describe();
  all[0].participant()->applied(2, all.records());
  ASSERT_OK(all[0].participant()->restore(first));
  all[0].participant()->stable(1);
  EXPECT_EQ(told.text(), "1(b1:0-2 ) ") << "who is healed to a step tells it too";
  ASSERT_OK(all[0].participant()->restore(first));
  all[0].participant()->stable(1);
  EXPECT_EQ(told.text(), "") << "once";
}

TEST(SessionLedger, WhoBeginsAnewTellsItsStepsAgain) {
  Told told;
  Members all("a", {options()}, told.options());
  all.step(1);
  const auto checkpoint = all[0].participant()->save();
  static_cast<void>(take(all[0], 1));
  all.step(2);
  all[0].participant()->stable(2);
  EXPECT_EQ(told.text(), "2(a0:0-1 ) ");
  ASSERT_OK(all[0].participant()->restore(checkpoint));
  static_cast<void>(take(all[0], 2));
  all.step(2);
  all[0].participant()->stable(2);
  EXPECT_EQ(told.text(), "2(a0:0-2 ) ");
}

TEST(SessionLedger, TellsTheLineageOfItsWorld) {
  std::vector<uint64_t> lineages;
  LedgerMemberOptions telling;
  telling.on_stable = [&](const CommittedStep& step) { lineages.push_back(step.lineage); };
  Members all("a", {options()}, telling);
  World world = world_of("a", 0);
  for (uint64_t step = 1; step <= 2; ++step) {
    world.lineage = step + 3;
    all[0].participant()->world_changed(world);
    static_cast<void>(take(all[0], 1));
    all.step(step);
    all[0].participant()->stable(step);
  }
  EXPECT_EQ(lineages, (std::vector<uint64_t>{4, 5, 5})) << "the first one once more";
}

// A lineage continues from a state of this member, whose last step had no samples and was not
// stable yet.
TEST(SessionLedger, TellsTheLastStepOfTheStateWithWhichALineageBegins) {
  std::vector<CommittedStep> steps;
  LedgerMemberOptions telling;
  telling.on_stable = [&](const CommittedStep& step) { steps.push_back(step); };
  Members all("a", {options()}, telling);
  static_cast<void>(take(all[0], 1));
  all.step(1);
  all[0].participant()->stable(1);
  all.step(2);
  World world = world_of("a", 0);
  world.lineage = 3;
  world.continues = 1;
  all[0].participant()->world_changed(world);
  all[0].participant()->stable(2);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].step, 2U);
  EXPECT_TRUE(steps[1].parts.empty());
  EXPECT_EQ(steps[1].lineage, 3U);
  EXPECT_EQ(steps[1].continues, 1U);
}

// A world of a lineage that never counted may have continued another lineage.
TEST(SessionLedger, ALineageContinuesWhatItsLastWorldSays) {
  std::vector<uint64_t> continued;
  LedgerMemberOptions telling;
  telling.on_stable = [&](const CommittedStep& step) { continued.push_back(step.continues); };
  Members all("a", {options()}, telling);
  World world = world_of("a", 0);
  world.lineage = 3;
  for (const uint64_t continues : {1, 2}) {
    world.continues = continues;
    all[0].participant()->world_changed(world);
  }
  static_cast<void>(take(all[0], 1));
  all.step(1);
  all[0].participant()->stable(1);
  EXPECT_EQ(continued, std::vector<uint64_t>{2});
}

TEST(SessionLedger, WantsAsManyPartitionsAsItsBatchSpans) {
  Members all("a", {options()});
  EXPECT_EQ(take(all[0], 10), "0:0-4");
  all.step(1);
  EXPECT_EQ(take(all[0], 10), "1:0-4 2:0-4 3:0-2") << "and one more to read ahead";
  EXPECT_EQ(text_of(all[0].leases()), "1:0-4 2:0-4 3:0-4 4:0-4");
  all[0].want(0);
  all.step(2);
  EXPECT_EQ(text_of(all[0].leases()), "3:2-4 4:0-4");
}

TEST(SessionLedger, StepsThatNeverGetStableAreAnError) {
  Told told;
  LedgerOptions one = options();
  one.epochs = 0;
  Members all("a", {one}, told.options());
  uint64_t step = 0;
  for (; all[0].take(1).ok(); ++step) {
    ASSERT_LT(step, 100U);
    all.step(step);
  }
  EXPECT_FAILS(all[0].take(1), StatusCode::kExhausted, "64 steps wait for stable()");
}

}  // namespace
}  // namespace ffdl
