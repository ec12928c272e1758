#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/limits.h"
#include "fault/hosts_job.h"

// A member that reaches the store but no other member must not keep the others from beginning and
// from finishing.
namespace ffdl::cuts {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Hosts;
using Clock = std::chrono::steady_clock;

class UnreachableHost : public HostsJob {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
    begin(Hosts::make(3));
  }

  pid_t start(int host, const std::string& address = "") {
    return start_part({.number = host, .host = host, .min_workers = 2, .address = address});
  }

  // Loses the packets between host 2 and the others, except packets of host 0 to host 2: they carry
  // the store's answers.
  void lose_links_of_the_last() {
    EXPECT_TRUE(hosts_->lose(2, Hosts::address(0)));
    EXPECT_TRUE(hosts_->lose(2, Hosts::address(1)));
    EXPECT_TRUE(hosts_->lose(1, Hosts::address(2)));
  }
};

TEST_F(UnreachableHost, IsLeftOutNamedAndTakenInWhenItCanBeReached) {
  lose_links_of_the_last();
  const pid_t unreachable = start(2);  // opens before the others
  const auto began = Clock::now();
  const pid_t a = start(0);
  const pid_t b = start(1);
  EXPECT_TRUE(will_be(kBegin, [&] { return train({0, 1}); }));
  std::printf("the others trained after %.1f s\n",
              std::chrono::duration<double>(Clock::now() - began).count());
  EXPECT_THAT(log_of(0) + log_of(1) + log_of(2),
              AllOf(HasSubstr("'m2' at 10.77.0.3 and '"), HasSubstr("could not connect in 3"),
                    HasSubstr("firewall or route")));
  // A member tells nothing of a world that the others give up first, so it may take some worlds.
  EXPECT_TRUE(will_be(kBegin, [&] {
    return log_of(2).find("is its address, 10.77.0.") != std::string::npos;
  })) << log_of(2);

  ASSERT_TRUE(hosts_->deliver(2, Hosts::address(0)));
  ASSERT_TRUE(hosts_->deliver(2, Hosts::address(1)));
  ASSERT_TRUE(hosts_->deliver(1, Hosts::address(2)));
  EXPECT_TRUE(will_be(kBegin, [&] { return train({0, 1, 2}); }));
  finish_soon();
  for (const pid_t member : {a, b, unreachable}) EXPECT_EQ(exit_code_of(member), kFinished);
}

// Its connections do not report the cut: they end because data is not acknowledged.
TEST_F(UnreachableHost, IsLeftOutWhereItsLinksAreCutWhileItTrains) {
  const std::vector<pid_t> members = {start(0), start(1), start(2)};
  ASSERT_TRUE(will_be(kBegin, [&] { return train({0, 1, 2}); }));
  lose_links_of_the_last();
  const auto cut = Clock::now();
  EXPECT_TRUE(will_be(kBegin + base::kPeerSilentMax, [&] { return train({0, 1}); }));
  std::printf("the others trained on after %.1f s\n",
              std::chrono::duration<double>(Clock::now() - cut).count());
  finish_soon();
  EXPECT_EQ(exit_code_of(members[0]), kFinished);
  EXPECT_EQ(exit_code_of(members[1]), kFinished);
  kill(members[2], SIGKILL);
}

TEST_F(UnreachableHost, DoesNotKeepTheOthersFromFinishing) {
  const pid_t a = start(0);
  const pid_t b = start(1);
  ASSERT_TRUE(will_be(kBegin, [&] { return train({0, 1}); }));
  lose_links_of_the_last();
  const pid_t unreachable = start(2);
  const uint64_t before = board_.slots[0].step;
  ASSERT_TRUE(will_be(kBegin, [&] { return board_.slots[0].step > before + 100; }));
  finish_soon();
  EXPECT_EQ(exit_code_of(a), kFinished) << log_of(0) << "\n" << log_of(2);
  EXPECT_EQ(exit_code_of(b), kFinished) << log_of(1);
  kill(unreachable, SIGKILL);
}

TEST_F(UnreachableHost, EndsOfItselfWhereItsAddressIsNotItsOwn) {
  const pid_t wrong = start(2, Hosts::address(7));
  const pid_t a = start(0);
  const pid_t b = start(1);
  EXPECT_EQ(exit_code_of(wrong), kFailed);
  EXPECT_THAT(log_of(2), HasSubstr("listen at '10.77.0.8'"));
  EXPECT_TRUE(will_be(kBegin, [&] { return train({0, 1}); }));
  finish_soon();
  EXPECT_EQ(exit_code_of(a), kFinished);
  EXPECT_EQ(exit_code_of(b), kFinished);
}

}  // namespace
}  // namespace ffdl::cuts
