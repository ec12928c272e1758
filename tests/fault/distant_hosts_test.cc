#include <signal.h>

#include "fault/hosts_job.h"

// Jobs on distant hosts, on two sides of a partition, and with a host that dies.
namespace ffdl::cuts {
namespace {

using namespace std::chrono_literals;
using testing::Hosts;

using DistantHosts = HostsJob;

// Packets take 50 ms, and one of twenty is lost, so a heartbeat may be late by some seconds.
TEST_F(DistantHosts, TrainAndEnd) {
  if (const auto why = Hosts::why_no_emulator(); !why.empty()) GTEST_SKIP() << why;
  begin(Hosts::make(3, {.delay = 50ms, .loss = 0.05}));
  std::vector<pid_t> members;
  for (int host = 0; host < 3; ++host) {
    members.push_back(start_part({.number = host, .host = host, .min_workers = 3, .lease = 10s}));
  }
  ASSERT_TRUE(will_be(60s, [&] { return train({0, 1, 2}); })) << log_of(0) << log_of(1);
  board_.last_epoch = board_.epoch + 1;
  for (const pid_t member : members) EXPECT_EQ(exit_code_of(member, 120s), kFinished);
  expect_nothing_lost_or_repeated();
}

// The store's side trains on, whether it has more hosts than the other or fewer.
class PartedHosts : public HostsJob, public ::testing::WithParamInterface<std::vector<int>> {
 protected:
  // A busy machine holds up a member of the store's side for less than the fence.
  pid_t start(int host) { return start_part({.number = host, .host = host, .fence_after = 8s}); }
};
INSTANTIATE_TEST_SUITE_P(Sides, PartedHosts,
                         ::testing::Values(std::vector<int>{3, 4}, std::vector<int>{2, 3, 4}),
                         [](const auto& apart) {
                           return "With" + std::to_string(apart.param.size()) + "Apart";
                         });

TEST_P(PartedHosts, OneSideGoesOnAndTheOtherComesBackAsNewcomers) {
  if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  begin(Hosts::make(5));
  std::vector<pid_t> members;
  std::vector<int> all;
  std::vector<int> together;
  const std::vector<int> apart = GetParam();
  for (int host = 0; host < 5; ++host) {
    all.push_back(host);
    if (std::ranges::count(apart, host) == 0) together.push_back(host);
    members.push_back(start(host));
  }
  ASSERT_TRUE(will_be(kBegin, [&] { return train(all) && slot(0).step > 20; }));

  ASSERT_TRUE(hosts_->partition(apart));
  EXPECT_TRUE(will_be(kBegin, [&] { return train(together); }));
  const uint64_t before = slot(0).step;
  EXPECT_TRUE(will_be(kBegin, [&] { return slot(0).step > before + 50; }));
  // A step whose data had arrived before the cut is noted by now, also by a member held up in it.
  std::vector<uint64_t> steps;
  for (const int host : apart) steps.push_back(slot(host).step);
  // A member ends its life when it has been away for longer than the job waits.
  for (const int host : apart) {
    EXPECT_EQ(exit_code_of(members[static_cast<size_t>(host)]), kCancelled) << log_of(host);
  }
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(slot(apart[i]).step, steps[i]);

  ASSERT_TRUE(hosts_->partition({}));
  const uint64_t after = slot(0).step;
  for (const int host : apart) {
    board_.slots[static_cast<size_t>(host)].step = 0;
    members[static_cast<size_t>(host)] = start(host);
  }
  EXPECT_TRUE(will_be(kBegin, [&] { return train(all); }));
  for (const int host : apart) EXPECT_GT(slot(host).step, after) << "the state was received";
  finish_soon();
  for (const int host : all) {
    EXPECT_EQ(exit_code_of(members[static_cast<size_t>(host)]), kFinished) << log_of(host);
  }
  expect_nothing_lost_or_repeated();
}

using DeadHost = HostsJob;

TEST_F(DeadHost, IsLeftBehind) {
  if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
  begin(Hosts::make(3));
  std::vector<pid_t> members;
  for (int host = 0; host < 3; ++host)
    members.push_back(start_part({.number = host, .host = host}));
  ASSERT_TRUE(will_be(kBegin, [&] { return train({0, 1, 2}); }));
  ASSERT_TRUE(hosts_->die(2));
  EXPECT_EQ(exit_code_of(members[2]), -1) << "it was killed";
  EXPECT_TRUE(will_be(kBegin, [&] { return train({0, 1}); }));
  const uint64_t before = slot(0).step;
  EXPECT_TRUE(will_be(kBegin, [&] { return slot(0).step > before + 50; }));
  finish_soon();
  EXPECT_EQ(exit_code_of(members[0]), kFinished) << log_of(0);
  EXPECT_EQ(exit_code_of(members[1]), kFinished) << log_of(1);
  expect_nothing_lost_or_repeated();
}

}  // namespace
}  // namespace ffdl::cuts
