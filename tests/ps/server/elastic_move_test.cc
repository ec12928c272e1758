#include "ps/server/elastic_move.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace ffdl::ps {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct MoveCase {
  float elasticity, local, centre;
  float gradient, new_local, new_centre;
};

TEST(ElasticMove, ByTable) {
  const MoveCase cases[] = {
      {0.5F, 8, 4, -2, 6, 6},              // half way each: they meet
      {0.25F, 8, 4, -1, 7, 5},             // a quarter each
      {0.25F, 4, 8, 1, 5, 7},              // the other way round
      {1, 8, 4, -4, 4, 8},                 // they change places
      {0.25F, 0.1F, 0.1F, 0, 0.1F, 0.1F},  // no move, and no rounding either
      {0.1F, 3, 3, 0, 3, 3},
      {0.5F, kInfinity, 1, -kInfinity, std::numeric_limits<float>::quiet_NaN(), kInfinity},
  };
  for (const MoveCase& c : cases) {
    std::array<float, 1> local{c.local};
    std::array<float, 1> gradient{c.centre};
    elastic_gradient(c.elasticity, local, gradient);
    EXPECT_EQ(gradient[0], c.gradient) << c.local << " " << c.centre;
    elastic_move(gradient, local);
    EXPECT_TRUE(local[0] == c.new_local || (local[0] != local[0] && c.new_local != c.new_local))
        << local[0];
    EXPECT_EQ(c.centre - gradient[0], c.new_centre);  // the result of rule `average`
  }
}

// The pushed floats are those by which the local model moves, to the last bit.
TEST(ElasticMove, BothSidesMoveByTheSameFloats) {
  std::array<float, 37> local;
  std::array<float, 37> gradient;
  for (size_t i = 0; i < local.size(); ++i) {
    local[i] = 1.0F / static_cast<float>(i + 1);
    gradient[i] = 1.0F / static_cast<float>(2 * i + 3);
  }
  const auto centre = gradient;
  auto moved = local;
  elastic_gradient(0.3F, local, gradient);
  elastic_move(gradient, moved);
  for (size_t i = 0; i < local.size(); ++i) {
    const float distance = centre[i] - local[i];
    const float part = 0.3F * distance;
    ASSERT_EQ(gradient[i], part) << i;
    ASSERT_EQ(moved[i], local[i] + part) << i;
  }
}

}  // namespace
}  // namespace ffdl::ps
