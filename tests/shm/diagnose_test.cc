#include "ffdl/diagnose.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "shm/liveness.h"
#include "shm/segment.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

// What list_segments says of one name; nullopt when it is not there.
std::optional<SegmentInfo> listed(const std::string& name) {
  auto segments = list_segments();
  EXPECT_OK(segments);
  const auto found = std::find_if(segments->begin(), segments->end(),
                                  [&](const SegmentInfo& info) { return info.name == name; });
  return found == segments->end() ? std::nullopt : std::optional(*found);
}

shm::Segment make(const std::string& name) {
  auto made = shm::Segment::create(
      {.name = name, .kind = shm::SegmentKind::kParameterServer, .layout_version = 1, .bytes = 8192});
  EXPECT_OK(made);
  EXPECT_OK(made->publish());
  return std::move(made).value();
}

TEST(Diagnose, TellsTheUsedFromTheStaleAndRemovesOnlyThose) {
  const testing::SegmentName name;
  const shm::Segment segment = make(name);
  {
    ASSERT_OK_AND_ASSIGN(shm::RoleLock owner, shm::RoleLock::acquire(segment.fd(), shm::learner_role(5)));
    ASSERT_TRUE(listed(name).has_value());
    EXPECT_TRUE(listed(name)->in_use);
    EXPECT_EQ(listed(name)->kind, "parameter server");
    EXPECT_EQ(listed(name)->bytes, 8192U);
    EXPECT_EQ(listed(name)->creator_pid, getpid());
    EXPECT_FAILS(remove_segment(name.text()), StatusCode::kConflict, "living process");
    EXPECT_TRUE(name.exists());
  }
  EXPECT_FALSE(listed(name)->in_use);
  EXPECT_OK(remove_segment(name.text()));
  EXPECT_FALSE(name.exists());
  EXPECT_FALSE(listed(name).has_value());
}

TEST(Diagnose, SaysWhatIsWrongWithAFileThatIsNoSegment) {
  const testing::SegmentName name;
  const int fd = open(name.path().c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(write(fd, "hello", 5), 5);
  close(fd);
  ASSERT_TRUE(listed(name).has_value());
  EXPECT_EQ(listed(name)->kind, "unknown");
  EXPECT_THAT(listed(name)->problem, ::testing::HasSubstr("do not begin as a segment"));
  EXPECT_OK(remove_segment(name.text()));
}

TEST(Diagnose, UnknownNamesAreNotFoundAndBadOnesRefused) {
  EXPECT_FAILS(remove_segment("no-such-segment"), StatusCode::kNotFound, "no-such-segment");
  EXPECT_FAILS(remove_segment("../etc"), StatusCode::kInvalidArgument, "'/'");
}

}  // namespace
}  // namespace ffdl
