#include "data/ledger/audit.h"

#include <gtest/gtest.h>

namespace ffdl::data {
namespace {

// Has ten samples in partitions of four, four and two.
constexpr DataSet kData = {.samples = 10, .partition_samples = 4};

struct Told {
  uint64_t step;
  std::vector<SampleRange> ranges;  // one range per member: "a", "b", ...
  uint64_t lineage = 1;
  uint64_t continues = 0;
};

CommitAudit audit(const std::vector<Told>& all, bool complete = false, uint64_t epochs = 0) {
  Audit made(kData, epochs);
  for (const Told& told : all) {
    CommittedStep step = {told.step, {}, told.lineage, told.continues};
    for (const SampleRange& range : told.ranges) {
      const auto rank = static_cast<char>(step.parts.size());
      step.parts.push_back({{std::string(1, static_cast<char>('a' + rank)), 1}, range});
    }
    made.add(step, "log");
  }
  return made.finish({.complete = complete});
}

const std::vector<Told> kEpoch = {
    {1, {{1, 0, 4}, {0, 0, 2}}}, {2, {{0, 2, 4}}}, {4, {{2, 0, 1}, {2, 1, 2}}}};

std::vector<Told> epoch_and(const std::vector<Told>& more) {
  std::vector<Told> all = kEpoch;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Audit, AWholeEpochIsInOrder) {
  for (const bool complete : {false, true}) {
    const CommitAudit made = audit(kEpoch, complete, 1);
    EXPECT_EQ(made.problems, 0U);
    EXPECT_EQ(made.steps, 3U);
    EXPECT_EQ(made.samples, 10U);
    EXPECT_EQ(made.epochs, 1U);
    EXPECT_EQ(made.under_way, 0U);
  }
  EXPECT_EQ(audit({}).problems, 0U);
}

TEST(Audit, TheLastEpochMayBeUnderWay) {
  const auto steps = epoch_and({{5, {{1, 4, 6}, {2, 2, 4}}}});
  const CommitAudit made = audit(steps);
  EXPECT_EQ(made.problems, 0U);
  EXPECT_EQ(made.epochs, 1U);
  EXPECT_EQ(made.under_way, 4U);
  const CommitAudit complete = audit(steps, true);
  EXPECT_EQ(complete.missing, 6U);
  EXPECT_EQ(audit(kEpoch, true, 3).missing, 20U);
  EXPECT_EQ(audit({}, true, 2).missing, 20U);
}

TEST(Audit, NamesWhatIsMissing) {
  const CommitAudit made = audit({{1, {{0, 0, 1}, {0, 3, 4}}}, {2, {{2, 2, 4}}}});
  EXPECT_EQ(made.missing, 2U + 4U + 2U);
  EXPECT_EQ(
      made.first_problems,
      (std::vector<std::string>{"samples [1, 3) of partition 0 are missing, from epoch 0 on",
                                "all samples of partitions [1, 2) are missing, in 1 epochs",
                                "samples [0, 2) of partition 2 are missing, from epoch 0 on"}));
}

TEST(Audit, NamesWhatIsRepeated) {
  const CommitAudit made = audit(epoch_and({{5, {{2, 2, 4}, {1, 1, 3}}}}));
  EXPECT_EQ(made.repeated, 2U);
  EXPECT_EQ(made.missing, 0U);
  EXPECT_EQ(made.first_problems,
            (std::vector<std::string>{
                "samples [1, 3) of partition 1 are repeated in epoch 0: 'a' in step 1, 'b' in step "
                "5"}));
  EXPECT_EQ(audit({{1, {{0, 0, 3}, {0, 0, 3}, {0, 2, 4}}}}).repeated, 4U);
}

TEST(Audit, MembersMustTellTheSame) {
  EXPECT_EQ(audit(epoch_and({kEpoch[0]})).problems, 0U);
  const CommitAudit made = audit(epoch_and({{2, {{0, 2, 3}}}}));
  ASSERT_EQ(made.problems, 1U);
  EXPECT_EQ(made.first_problems[0], "step 2 has different records in log and in log");
}

TEST(Audit, AnotherLineageTakesBack) {
  // Step 4 was lost with the checkpoint of step 2, and its samples are repeated.
  EXPECT_EQ(audit({{1, {{1, 0, 4}, {0, 0, 2}}},
                   {2, {{0, 2, 4}}},
                   {4, {{2, 0, 1}}},
                   {5, {{2, 1, 2}}},
                   {3, {{2, 0, 2}}, 2}})
                .problems,
            0U);
  EXPECT_EQ(audit(epoch_and({{3, {{2, 0, 1}}, 2}}), true).missing, 1U);
}

// A further job takes steps back as a new lineage does, but its numbers begin anew.
TEST(Audit, AFurtherJobTakesBack) {
  const auto step = [](uint64_t number, const SampleRange& range) {
    return CommittedStep{number, {{{"a", 1}, range}}, 1};
  };
  for (const size_t job : {1U, 0U}) {
    Audit made(kData, 1);
    made.add(step(1, {0, 0, 4}), "monday");
    made.add(step(2, {1, 0, 4}), "monday");
    made.add(step(3, {2, 0, 1}), "monday");  // after the checkpoint of step 2
    made.add(step(2, {1, 0, 4}), "tuesday", job);
    made.add(step(3, {2, 0, 2}), "tuesday", job);
    EXPECT_EQ(made.finish({.complete = true}).problems, job == 1 ? 0U : 2U);
  }
}

TEST(Audit, WhatIsNoSampleIsAProblem) {
  for (const SampleRange& range : {SampleRange{3, 0, 1}, SampleRange{0, 3, 5}, SampleRange{0, 2, 2},
                                   SampleRange{0, uint64_t{1} << 40, (uint64_t{1} << 40) + 1}}) {
    const CommitAudit made = audit({{1, {range}}});
    EXPECT_EQ(made.problems, 1U);
    EXPECT_EQ(made.samples, 0U);
  }
}

TEST(Audit, ManyProblemsAreCounted) {
  std::vector<Told> steps = kEpoch;
  for (uint64_t step = 10; step < 210; ++step) steps.push_back({step, {{0, 0, 1}}});
  const CommitAudit made = audit(steps);
  EXPECT_EQ(made.problems, 200U);
  EXPECT_EQ(made.repeated, 200U);
  EXPECT_EQ(made.first_problems.size(), 100U);
}

// The last step of the state may never have been stable before, or with other samples.
TEST(Audit, ALineageContinuesFromItsFirstStep) {
  const CommitAudit made = audit({{1, {{1, 0, 4}, {0, 0, 2}}},
                                  {2, {{0, 2, 3}}},
                                  {3, {{0, 3, 4}, {2, 0, 2}}},
                                  {2, {{0, 2, 4}}, 2},
                                  {3, {{2, 0, 2}}, 2}},
                                 true, 1);
  EXPECT_EQ(made.problems, 0U);
  EXPECT_EQ(made.samples, 10U);
  EXPECT_EQ(made.undone, 1U + 3U);
}

TEST(Audit, AStepWithoutSamplesReplacesTheOthers) {
  const CommitAudit made =
      audit({{1, {{1, 0, 4}, {0, 0, 4}}}, {2, {{2, 0, 2}}}, {2, {}, 2}, {3, {{2, 0, 2}}, 2}},
            true, 1);
  EXPECT_EQ(made.problems, 0U);
  EXPECT_EQ(made.steps, 2U);
  EXPECT_EQ(made.undone, 2U);
}

// Lineage 2 began with an older state than lineage 1 had reached. Lineage 3 continues lineage 1.
TEST(Audit, ALineageMayContinueAnEarlierOneThanTheOneBefore) {
  const std::vector<Told> first = {{1, {{1, 0, 4}}}, {2, {{0, 0, 2}}}, {3, {{0, 2, 4}}}};
  std::vector<Told> all = first;
  all.push_back({1, {{1, 0, 4}}, 2});
  all.push_back({2, {{2, 0, 2}}, 2});
  all.push_back({3, {{0, 2, 4}}, 3, 1});
  all.push_back({4, {{2, 0, 2}}, 3, 1});
  const CommitAudit made = audit(all, true, 1);
  EXPECT_EQ(made.problems, 0U);
  EXPECT_EQ(made.samples, 10U);
  EXPECT_EQ(made.undone, 2U);
}

}  // namespace
}  // namespace ffdl::data
