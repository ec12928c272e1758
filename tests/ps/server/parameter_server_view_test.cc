#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ffdl/ps/learner.h"
#include "ps/segment/layout.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

ParameterServerOptions options_of(std::string name) {
  ParameterServerOptions options;
  options.name = std::move(name);
  options.parameters = 100;
  options.rule.learning_rate = 1;
  return options;
}

TEST(ParameterServerView, SeesStatsAndWeightsAndTakesPartInNothing) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(name)));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto view, ParameterServerView::open(name.text(), deadline_in(60s)));
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s)));
  ASSERT_OK(learner->push(std::vector<float>(100, 2.0F), {.begin = 0, .end = 6}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  std::vector<float> weights(view->parameters());
  ASSERT_OK_AND_ASSIGN(const uint64_t version, view->pull(weights, PullMode::kSnapshot));
  EXPECT_EQ(version, 1U);
  EXPECT_EQ(weights[99], -2.0F);
  const ParameterServerStats stats = view->stats();
  EXPECT_TRUE(stats.server_alive);
  EXPECT_EQ(stats.server_pid, getpid());
  EXPECT_EQ(stats.epoch, 1U);
  ASSERT_EQ(stats.learners.size(), 1U);
  EXPECT_TRUE(stats.learners[0].attached);
  EXPECT_EQ(stats.learners[0].samples, 6U);
  EXPECT_EQ(stats.staleness[0], 1U);
  server.reset();
  EXPECT_FALSE(view->stats().server_alive);
  EXPECT_FAILS(view->pull(std::span(weights).first(5)), StatusCode::kInvalidArgument, "100");
}

// Tests the errors that an attaching process reports for a damaged segment.
TEST(ParameterServerView, DamagedSegmentsAreNamedAndNotMapped) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(name)));
  const int fd = open(name.path().c_str(), O_RDWR);
  const uint32_t other_version = ps::kLayoutVersion + 1;
  uint32_t version = 0;
  const auto at = static_cast<off_t>(offsetof(shm::SegmentHeader, layout_version));
  ASSERT_EQ(pread(fd, &version, 4, at), 4);
  ASSERT_EQ(pwrite(fd, &other_version, 4, at), 4);
  EXPECT_FAILS(ParameterServerView::open(name.text(), deadline_in(60s)), StatusCode::kCorrupt,
               "checksum");
  ASSERT_EQ(pwrite(fd, &version, 4, at), 4);
  const char junk = 7;
  ASSERT_EQ(pwrite(fd, &junk, 1, sizeof(shm::SegmentHeader) + 3), 1);
  EXPECT_FAILS(ParameterServerView::open(name.text(), deadline_in(60s)), StatusCode::kCorrupt,
               "configuration");
  EXPECT_FAILS(Learner::attach(name.text(), deadline_in(60s)), StatusCode::kCorrupt, "checkpoint");
  close(fd);
}

}  // namespace
}  // namespace ffdl
