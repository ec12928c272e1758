#include "launch/wanted_workers.h"

#include <gtest/gtest.h>

namespace ffdl::launch {
namespace {

TEST(WantedWorkers, Scaled) {
  const struct {
    const char* before;
    int count;
    const char* after;
  } cases[] = {
      {"2", 2, "2"},
      {"2", 4, "4"},
      {"4", 1, "1"},
      {"2: 0 2<1", 1, "1"},
      {"2: 2<0 1", 1, "1: 2<0"},      // the last place is removed, not the largest number
      {"2: 0 2<1", 3, "3: 0 2 1"},    // worker 1 is wanted itself, so no worker takes over from it
      {"2: 0 3<1", 4, "4: 0 3 1 2"},  // the smallest free numbers are added
      {"3: 0 2<1 3", 2, "2: 0 2<1"},
      {"", 2, "2"},
      {"3", 0, "0"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(encode(scaled(parse_wanted(test.before), test.count)), test.after) << test.before;
  }
}

TEST(WantedWorkers, Moved) {
  const struct {
    const char* before;
    int from;
    int to;
    const char* after;
  } cases[] = {
      {"2", 1, 2, "2: 0 2<1"},        {"2", 0, 5, "2: 5<0 1"},
      {"2: 0 2<1", 2, 1, "2: 0 1<2"},  // back to worker 1
      {"2: 0 2<1", 2, 3, "2: 0 3<2"},  // onward: no worker takes over from worker 1 any more
      {"2: 0 2<1", 0, 1, "2: 1<0 2"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(encode(moved(parse_wanted(test.before), test.from, test.to)), test.after)
        << test.before;
  }
}

TEST(WantedWorkers, ReadsWhatItWrote) {
  for (const char* text : {"1", "12", "256", "1: 3", "2: 0 2<1", "3: 2 1<0 7<4"}) {
    EXPECT_EQ(encode(parse_wanted(text)), text);
  }
  const WantedWorkers wanted = parse_wanted("2: 0 2<1");
  EXPECT_EQ(place_of(wanted, 2), 1);
  EXPECT_EQ(place_of(wanted, 1), -1);
  EXPECT_EQ(wanted[1].takes_over_from, 1);
  for (const char* text : {"", "0", "-1", "1x", "257", "99999999999", "2:", "2: 0", "2: 0 0",
                           "2: 0  1", "1: 0<", "1: 0<x", "1: 0 ", "2:0 1", "1: 999"}) {
    EXPECT_TRUE(parse_wanted(text).empty()) << text;
  }
}

TEST(WantedWorkers, Numbers) {
  EXPECT_EQ(number_of("worker-12"), 12);
  for (const char* id : {"", "worker-", "worker-x", "worker-1x", "12"}) {
    EXPECT_EQ(number_of(id), -1) << id;
  }
}

TEST(WantedWorkers, WhoHandsOverEndsByItself) {
  RunStatus run;
  run.wanted_workers = parse_wanted("3: 0 3<1 4<2");
  EXPECT_EQ(handing_over(run), (std::set<int>{1, 2}));
  run.nodes = {{0, 0, 1, 5, {{"worker-3", "running", 1, 0}, {"worker-4", "finished", 2, 0}}}};
  EXPECT_EQ(handing_over(run), (std::set<int>{1}));
}

}  // namespace
}  // namespace ffdl::launch
