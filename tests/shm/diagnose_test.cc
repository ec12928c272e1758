#include "ffdl/diagnose.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "shm/liveness.h"
#include "shm/segment.h"
#include "support/other_user.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

// Returns the entry of list_segments() for one name; nullopt if it is missing.
std::optional<SegmentInfo> listed(const std::string& name) {
  auto segments = list_segments();
  EXPECT_OK(segments);
  const auto found = std::find_if(segments->begin(), segments->end(),
                                  [&](const SegmentInfo& info) { return info.name == name; });
  return found == segments->end() ? std::nullopt : std::optional(*found);
}

shm::Segment make(const std::string& name) {
  auto made = shm::Segment::create({.name = name,
                                    .kind = shm::SegmentKind::kParameterServer,
                                    .layout_version = 1,
                                    .bytes = 8192});
  EXPECT_OK(made);
  EXPECT_OK(made->publish());
  return std::move(made).value();
}

TEST(Diagnose, TellsTheUsedFromTheStaleAndRemovesOnlyThose) {
  const testing::SegmentName name;
  const shm::Segment segment = make(name);
  {
    ASSERT_OK_AND_ASSIGN(shm::RoleLock owner,
                         shm::RoleLock::acquire(segment.fd(), shm::learner_role(5)));
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
  EXPECT_NE(listed(name)->problem.find("do not begin like a segment"), std::string::npos);
  EXPECT_OK(remove_segment(name.text()));
}

// A pipe or link may have a segment's name. It is neither waited for nor followed.
TEST(Diagnose, WhatIsNoFileIsListedOnly) {
  const testing::SegmentName pipe;
  const testing::SegmentName link;
  ASSERT_EQ(mkfifo(pipe.path().c_str(), 0600), 0);
  ASSERT_EQ(symlink("/etc/hostname", link.path().c_str()), 0);
  for (const testing::SegmentName* name : {&pipe, &link}) {
    ASSERT_TRUE(listed(*name).has_value());
    EXPECT_NE(listed(*name)->problem.find("not a regular file"), std::string::npos);
    EXPECT_FALSE(remove_segment(name->text()).ok());
  }
  EXPECT_TRUE(pipe.exists());
}

// The other user could truncate the file while it is read. Only that user knows if the file is
// needed.
TEST(Diagnose, AnotherUsersIsListedAndNeverRemoved) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const testing::SegmentName name;
  ASSERT_EQ(testing::as_other_user([&] {
              make(name);
              const int fd = open(name.path().c_str(), O_RDWR | O_CLOEXEC);
              return fd >= 0 && fchmod(fd, 0666) == 0 ? 0 : 1;
            }),
            0);
  const std::optional<SegmentInfo> info = listed(name);
  ASSERT_TRUE(info.has_value());
  EXPECT_FALSE(info->is_own);
  EXPECT_EQ(info->kind, "unknown");
  EXPECT_NE(info->problem.find("belongs to user 65534"), std::string::npos) << info->problem;
  EXPECT_FAILS(remove_segment(name.text()), StatusCode::kInvalidArgument, "belongs to user 65534");
  EXPECT_TRUE(name.exists());
}

TEST(Diagnose, UnknownNamesAreNotFoundAndBadOnesRefused) {
  EXPECT_FAILS(remove_segment("no-such-segment"), StatusCode::kNotFound, "no-such-segment");
  EXPECT_FAILS(remove_segment("../etc"), StatusCode::kInvalidArgument, "'/'");
}

}  // namespace
}  // namespace ffdl
