#include "elastic/step/participant_list.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/small_model.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::Scribe;

TEST(ParticipantList, RestoresWhatEachParticipantSaved) {
  Scribe first(1);
  Scribe second(2);
  const std::vector<StepParticipant*> all = {&first, &second};
  const ParticipantList list(all);
  list.world_changed({.generation = 3});
  second.world_changed({.generation = 4});
  const auto saved = list.save();
  const uint64_t sum = first.sum();
  const uint64_t other = second.sum();
  EXPECT_NE(sum, other);
  list.world_changed({.generation = 5});
  EXPECT_NE(first.sum(), sum);
  ASSERT_OK(list.restore(saved));
  EXPECT_EQ(first.sum(), sum);
  EXPECT_EQ(second.sum(), other);

  const auto part = std::span(saved).first(saved.size() - 1);
  EXPECT_EQ(list.restore(part).code(), StatusCode::kInternal);
}

TEST(ParticipantList, HasNothingToSayWithoutParticipants) {
  const ParticipantList none({});
  EXPECT_TRUE(none.save().empty());
  ASSERT_OK(none.restore({}));
  ASSERT_OK(none.averaged());
  EXPECT_FALSE(none.step_samples().has_value());
  EXPECT_TRUE(none.is_contribution_due());
  EXPECT_TRUE(none.are_alive());
}

}  // namespace
}  // namespace ffdl::elastic
