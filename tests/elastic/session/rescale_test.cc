#include "elastic/session/rescale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr int kOwn = RescalePlan::kOwn;

World world_of(int size, bool with_state_holders = true) {
  World world;
  world.generation = 7;
  world.lineage = 2;
  world.members = ffdl::testing::members_named(size);
  if (with_state_holders) world.state_holders = {world.members.front()};
  return world;
}

// Returns the report of a member that holds the state of `step` of this generation, lineage 2.
Report at(uint64_t step, uint64_t generation = 6) {
  return {base::kProtocolVersion, 11, 1, 2, generation, step, 1000 * generation + step, 0};
}
Report newcomer() { return {base::kProtocolVersion, 11, 0, 0, 0, 0, 0, 0}; }

RescalePlan plan(const std::vector<Report>& reports) {
  auto made = plan_rescale(reports, world_of(static_cast<int>(reports.size())));
  EXPECT_OK(made);
  return made.ok() ? *made : RescalePlan{};
}

TEST(PlanRescale, WhoHasTheNewestStateKeepsIt) {
  const RescalePlan all = plan({at(5), at(5), at(5)});
  EXPECT_EQ(all.step, 5U);
  EXPECT_EQ(all.history, 6005U);
  EXPECT_THAT(all.from, ElementsAre(kOwn, kOwn, kOwn));
  EXPECT_THAT(all.refused, IsEmpty());
}

TEST(PlanRescale, WhoIsAStepBehindTakesIt) {
  const RescalePlan one_ahead = plan({at(5), at(6), at(5)});
  EXPECT_EQ(one_ahead.step, 6U);
  EXPECT_THAT(one_ahead.from, ElementsAre(1, kOwn, 1));
}

TEST(PlanRescale, TheGenerationCountsBeforeTheStep) {
  EXPECT_THAT(plan({at(9, 5), at(6, 6)}).from, ElementsAre(1, kOwn));
}

TEST(PlanRescale, NewcomersShareTheSources) {
  EXPECT_THAT(plan({at(5), at(5), newcomer(), newcomer(), newcomer()}).from,
              ElementsAre(kOwn, kOwn, 0, 1, 0));
}

TEST(PlanRescale, AStateOfAnotherLineageIsNone) {
  Report old = at(99);
  old.lineage = 1;
  EXPECT_THAT(plan({old, at(5)}).from, ElementsAre(1, kOwn));
}

TEST(PlanRescale, AWorldWithoutCarriersBeginsFromRankZero) {
  std::vector<Report> reports = {newcomer(), newcomer(), newcomer()};
  reports[0].hash = reports[2].hash = 5;
  reports[1].hash = 6;
  ASSERT_OK_AND_ASSIGN(const RescalePlan made, plan_rescale(reports, world_of(3, false)));
  EXPECT_EQ(made.step, 0U);
  EXPECT_THAT(made.from, ElementsAre(kOwn, 0, kOwn));
}

// The world may begin from a checkpoint whose history belongs to another job.
TEST(PlanRescale, AWorldThatBeginsFromACheckpointCountsItsSteps) {
  std::vector<Report> reports = {newcomer(), newcomer()};
  reports[0].step = 40;
  reports[0].history = 7;
  reports[0].hash = 5;
  reports[1].hash = 6;
  ASSERT_OK_AND_ASSIGN(const RescalePlan made, plan_rescale(reports, world_of(2, false)));
  EXPECT_EQ(made.step, 40U);
  EXPECT_EQ(made.history, 5U);
  EXPECT_THAT(made.from, ElementsAre(kOwn, 0));
}

// Returns the report of a member that holds a state of an earlier lineage.
Report held(uint64_t lineage, uint64_t generation, uint64_t step) {
  Report report = at(step, generation);
  report.lineage = lineage;
  report.hash = 10'000 * lineage + report.history;
  return report;
}

struct MemoryCase {
  const char* name;
  std::vector<Report> reports;
  std::optional<StateLabel> checkpoint;
  int base;  // the rank whose memory has it; -1: the checkpoint is newer, or there is none
};

TEST(PlanFromMemory, Table) {
  const StateLabel saved = {1, 4, 7};
  const MemoryCase cases[] = {
      {"no member holds a state", {newcomer(), newcomer()}, {}, -1},
      {"one does", {newcomer(), held(1, 4, 9)}, {}, 1},
      {"the later step of a generation", {held(1, 4, 8), held(1, 4, 9)}, {}, 1},
      {"the later generation before the step", {held(1, 4, 9), held(1, 5, 8)}, {}, 1},
      {"the later lineage before both", {held(2, 1, 1), held(1, 5, 9)}, {}, 0},
      {"of equal ones the first", {newcomer(), held(1, 4, 9), held(1, 4, 9)}, {}, 1},
      {"newer than the checkpoint", {held(1, 4, 8)}, saved, 0},
      {"as new as the checkpoint", {held(1, 4, 7)}, saved, 0},
      {"older than the checkpoint", {held(1, 4, 6), newcomer()}, saved, -1},
      {"an earlier generation than the checkpoint's", {held(1, 3, 99)}, saved, -1},
  };
  for (const MemoryCase& test : cases) {
    SCOPED_TRACE(test.name);
    const World world = world_of(static_cast<int>(test.reports.size()), false);
    ASSERT_OK_AND_ASSIGN(const auto made, plan_from_memory(test.reports, world, test.checkpoint));
    EXPECT_EQ(made.has_value(), test.base >= 0);
    if (!made) continue;
    const auto& base = test.reports[static_cast<size_t>(test.base)];
    EXPECT_EQ(made->holder, world.members[static_cast<size_t>(test.base)].id);
    EXPECT_EQ(made->base, base.label());
    EXPECT_EQ(made->step, base.step);
    EXPECT_EQ(made->history, base.history);
    EXPECT_EQ(made->from[static_cast<size_t>(test.base)], kOwn);
  }
}

TEST(PlanFromMemory, TheOthersTakeTheStateFromAllThatHaveIt) {
  const std::vector reports = {held(1, 4, 9), newcomer(), held(1, 4, 8), held(1, 4, 9)};
  ASSERT_OK_AND_ASSIGN(const auto made, plan_from_memory(reports, world_of(4, false), {}));
  ASSERT_TRUE(made);
  EXPECT_THAT(made->from, ElementsAre(kOwn, 0, 3, kOwn));
}

// One of them may have loaded it from a checkpoint, and then has another history. One may have
// entered a world that never counted, and then has other bytes: it is healed.
TEST(PlanFromMemory, OneStateIsThatOfAll) {
  std::vector reports = {held(1, 4, 9), held(1, 4, 9)};
  reports[1].history += 1;
  ASSERT_OK_AND_ASSIGN(auto made, plan_from_memory(reports, world_of(2, false), {}));
  ASSERT_TRUE(made);
  EXPECT_THAT(made->from, ElementsAre(kOwn, kOwn));
  reports[1].hash += 1;
  ASSERT_OK_AND_ASSIGN(made, plan_from_memory(reports, world_of(2, false), {}));
  ASSERT_TRUE(made);
  EXPECT_THAT(made->from, ElementsAre(kOwn, 0));
}

TEST(PlanRescale, AnotherModelIsRefused) {
  Report other = newcomer();
  other.model = 12;
  EXPECT_THAT(plan({at(5), other, at(5)}).refused, ElementsAre(1));
}

TEST(PlanRescale, EqualLabelsOfUnequalStatesAreABug) {
  Report other = at(5);
  other.history += 1;
  EXPECT_FAILS(plan_rescale(std::vector{at(5), other}, world_of(2)), StatusCode::kInternal,
               "unequal histories");
  Report one = at(5);
  Report two = at(5);
  one.hash = 1;
  two.hash = 2;
  EXPECT_FAILS(plan_rescale(std::vector{one, two}, world_of(2)), StatusCode::kInternal,
               "'m0' and 'm1' are both at step 5");
}

TEST(PlanRescale, SomebodyMustHoldTheState) {
  EXPECT_FAILS(plan_rescale(std::vector{newcomer()}, world_of(1)), StatusCode::kInternal,
               "none of its 1 members");
}

TEST(PlanRescale, OneVersionOnly) {
  Report other = at(5);
  other.format = 9;
  EXPECT_FAILS(plan_rescale(std::vector{at(5), other}, world_of(2)), StatusCode::kInvalidArgument,
               "'m1' uses version 9 of the session's protocol, this member " +
                   std::to_string(base::kProtocolVersion));
}

}  // namespace
}  // namespace ffdl::elastic
