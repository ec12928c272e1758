#include "benchmarks/harness/pairs.h"

#include <gtest/gtest.h>

#include <string>

namespace ffdl::bench {
namespace {

TEST(RunPairs, AlternatesWhoBeginsAndDropsTheWarmUp) {
  std::string order;
  int turns = 0;
  const Turn subject = [&]() -> Result<double> {
    order += 'A';
    return 10.0 + turns++;
  };
  const Turn limit = [&]() -> Result<double> {
    order += 'B';
    return 20.0 + turns++;
  };
  double share = 0;
  auto pairs = run_pairs(subject, limit, 3, 1, [&](double done) { share = done; });
  ASSERT_TRUE(pairs.ok());
  EXPECT_EQ(order, "ABBAABBA");
  ASSERT_EQ(pairs->size(), 3U);
  EXPECT_EQ((*pairs)[0].limit, 22);  // the first turn after the warm-up's two
  EXPECT_EQ((*pairs)[0].subject, 13);
  EXPECT_EQ((*pairs)[1].subject, 14);
  EXPECT_EQ((*pairs)[1].limit, 25);
  EXPECT_EQ(share, 1);
}

TEST(RunPairs, EndsAtTheFirstFailure) {
  int limit_turns = 0;
  const Turn subject = []() -> Result<double> { return Status(StatusCode::kTimeout, "too late"); };
  const Turn limit = [&]() -> Result<double> { return ++limit_turns; };
  auto pairs = run_pairs(subject, limit, 5, 0, [](double) {});
  ASSERT_FALSE(pairs.ok());
  EXPECT_EQ(pairs.status().message(), "too late");
  EXPECT_EQ(limit_turns, 0);
}

}  // namespace
}  // namespace ffdl::bench
