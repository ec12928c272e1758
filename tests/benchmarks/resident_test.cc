#include "benchmarks/harness/resident.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ffdl::bench {
namespace {

TEST(Resident, AnswersLineByLine) {
  auto cat = Resident::start({"cat"});
  ASSERT_TRUE(cat.ok());
  EXPECT_EQ((*cat)->ask("hello").value(), "hello");
  EXPECT_EQ((*cat)->ask_number("2.5e-3").value(), 2.5e-3);
  EXPECT_TRUE((*cat)->tell("first").ok());
  EXPECT_TRUE((*cat)->tell("second").ok());
  EXPECT_EQ((*cat)->ask("").value(), "first");
  EXPECT_EQ((*cat)->ask("").value(), "second");
  EXPECT_EQ((*cat)->ask_number("2.5 s").status().code(), StatusCode::kInternal);
}

TEST(Resident, SaysThatItsProcessEndedOrIsSlow) {
  EXPECT_EQ(Resident::start({"/no/such/program"}).status().code(), StatusCode::kNotFound);
  auto brief = Resident::start({"true"});
  ASSERT_TRUE(brief.ok());
  EXPECT_EQ((*brief)->ask("").status().code(), StatusCode::kPeerLost);
  EXPECT_EQ((*brief)->ask("more").status().code(), StatusCode::kPeerLost);
  auto mute = Resident::start({"sh", "-c", "read line; read line"});
  ASSERT_TRUE(mute.ok());
  EXPECT_EQ((*mute)->ask("hello", std::chrono::seconds(0)).status().code(), StatusCode::kTimeout);
}

TEST(Resident, CanBeKilled) {
  auto cat = Resident::start({"cat"});
  ASSERT_TRUE(cat.ok());
  const pid_t pid = (*cat)->pid();
  (*cat)->kill_now();
  (*cat)->reap();
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace ffdl::bench
