#include "scaling/detect_straggler.h"

#include <gtest/gtest.h>

namespace ffdl::scaling {
namespace {

using Times = std::vector<MemberTime>;

std::vector<uint64_t> lengths(const std::vector<SlowRun>& runs) {
  std::vector<uint64_t> all;
  for (const SlowRun& run : runs) all.push_back(run.steps);
  return all;
}

TEST(DetectStraggler, WhoIsSlowInOneStep) {
  struct Case {
    const char* what;
    Times times;
    std::vector<uint64_t> slow;
  };
  const Case cases[] = {
      {"all alike", {{8, 1}, {8, 1}, {8, 1}}, {0, 0, 0}},
      {"one of three", {{8, 1}, {8, 3}, {8, 1}}, {0, 1, 0}},
      {"one of two", {{8, 1}, {8, 3}}, {0, 1}},
      {"just under the factor", {{8, 1}, {8, 1.19}}, {0, 0}},
      {"half of four", {{8, 1}, {8, 3}, {8, 3}, {8, 1}}, {0, 1, 1, 0}},
      {"more samples take longer", {{8, 1}, {16, 2}, {4, 0.5}}, {0, 0, 0}},
      {"few samples that take as long", {{8, 1}, {8, 1}, {2, 1}}, {0, 0, 1}},
      {"who has none is not looked at", {{8, 1}, {0, 100}, {8, 1}}, {0, 0, 0}},
      {"alone", {{8, 100}}, {0}},
      {"alone with samples", {{8, 100}, {0, 0}}, {0, 0}},
      {"no time at all", {{8, 0}, {8, 0}, {8, 1}}, {0, 0, 0}},
  };
  for (const Case& each : cases) {
    std::vector<SlowRun> runs(each.times.size());
    add_step({}, each.times, runs);
    EXPECT_EQ(lengths(runs), each.slow) << each.what;
  }
}

TEST(DetectStraggler, OnlyWithoutABreak) {
  const SlowRules rules = {1.2, 3};
  const Times slow = {{8, 1}, {8, 2}, {8, 1}};
  const Times equal = {{8, 1}, {8, 1}, {8, 1}};
  std::vector<SlowRun> runs(3);
  for (const Times* times : {&slow, &slow, &equal, &slow, &slow}) add_step(rules, *times, runs);
  EXPECT_FALSE(runs[1].is_straggler(rules));
  add_step(rules, {{{8, 1}, {0, 9}, {8, 1}}}, runs);  // without samples: no interruption
  EXPECT_EQ(runs[1].steps, 2U);
  add_step(rules, {{{8, 1}, {8, 5}, {8, 1}}}, runs);
  EXPECT_TRUE(runs[1].is_straggler(rules));
  EXPECT_DOUBLE_EQ(runs[1].mean_factor(), 3);
  EXPECT_FALSE(runs[0].is_straggler(rules));
}

}  // namespace
}  // namespace ffdl::scaling
