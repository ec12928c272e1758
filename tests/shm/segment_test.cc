#include "shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "support/low_limit.h"
#include "support/other_user.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl::shm {
namespace {

constexpr uint64_t kBytes = 3 * 4096;

SegmentSpec spec_of(std::string name) {
  return {.name = std::move(name),
          .kind = SegmentKind::kParameterServer,
          .layout_version = 7,
          .bytes = kBytes};
}

Result<Segment> open_it(const std::string& name, uint32_t version = 7) {
  return Segment::open(name, SegmentKind::kParameterServer, version);
}

// Publishes a segment, and changes its file by `damage`.
template <class Damage>
Status open_damaged(Damage&& damage) {
  const testing::SegmentName name;
  auto segment = Segment::create(spec_of(name));
  EXPECT_OK(segment);
  EXPECT_OK(segment->publish());
  const int fd = ::open(name.path().c_str(), O_RDWR);
  damage(fd);
  ::close(fd);
  return open_it(name).status();
}

TEST(Segment, IsSeenByOthersOnlyOnceItIsWhole) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of(name)));
  EXPECT_FAILS(open_it(name), StatusCode::kNotFound, name.text());
  segment.data()[100] = std::byte{42};
  ASSERT_OK(segment.publish());
  ASSERT_OK_AND_ASSIGN(Segment other, open_it(name));
  EXPECT_EQ(other.data()[100], std::byte{42});
  EXPECT_EQ(other.bytes(), kBytes);
  EXPECT_EQ(other.header().generation, segment.header().generation);
  EXPECT_EQ(other.header().creator_pid, getpid());
}

TEST(Segment, IsPrivateToItsUser) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of(name)));
  ASSERT_OK(segment.publish());
  struct stat file = {};
  ASSERT_EQ(stat(name.path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
}

TEST(Segment, OneThatOthersMayWriteToIsRefused) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of(name)));
  ASSERT_OK(segment.publish());
  for (const mode_t mode : {0660U, 0602U, 0640U}) {
    ASSERT_EQ(chmod(name.path().c_str(), mode), 0);
    EXPECT_FAILS(open_it(name), StatusCode::kInvalidArgument, "gives other users access");
  }
  ASSERT_EQ(chmod(name.path().c_str(), 0600), 0);
  EXPECT_OK(open_it(name));
}

// The owner could truncate it later, and the next access would raise SIGBUS.
TEST(Segment, OneOfAnotherUserIsRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const testing::SegmentName name;
  const int code = testing::as_other_user([&] {
    auto segment = Segment::create(spec_of(name));
    return segment.ok() && segment->publish().ok() ? 0 : 1;
  });
  ASSERT_EQ(code, 0);
  EXPECT_FAILS(open_it(name), StatusCode::kInvalidArgument, "belongs to user 65534");
}

// An anonymous segment is opened through a process, whose number may now belong to another user's
// process.
TEST(Segment, AnAnonymousOneOfAnotherUserIsRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of("")));
  EXPECT_OK(Segment::open_of(getpid(), segment.fd(), SegmentKind::kParameterServer, 7));
  ASSERT_EQ(fchown(segment.fd(), testing::kOtherUser, testing::kOtherUser), 0);
  EXPECT_FAILS(Segment::open_of(getpid(), segment.fd(), SegmentKind::kParameterServer, 7),
               StatusCode::kInvalidArgument, "belongs to user 65534");
}

TEST(Segment, UnlinkRemovesOnlyItsOwnName) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment first, Segment::create(spec_of(name)));
  ASSERT_OK(first.publish());
  ASSERT_OK(first.check_linked());
  first.unlink();
  EXPECT_FALSE(name.exists());
  EXPECT_FAILS(first.check_linked(), StatusCode::kNotFound, "removed meanwhile");
  ASSERT_OK_AND_ASSIGN(Segment second, Segment::create(spec_of(name)));
  ASSERT_OK(second.publish());
  first.unlink();  // the name belongs to another segment now
  EXPECT_TRUE(name.exists());
}

TEST(Segment, NameInUseIsAConflictAndLeavesTheOtherAlone) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment first, Segment::create(spec_of(name)));
  ASSERT_OK(first.publish());
  ASSERT_OK_AND_ASSIGN(Segment second, Segment::create(spec_of(name)));
  EXPECT_FAILS(second.publish(), StatusCode::kConflict, "the name is in use");
  EXPECT_OK(open_it(name));
}

TEST(Segment, AnonymousOneHasNoNameAndCannotBeTruncated) {
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of("")));
  ASSERT_OK(segment.publish());
  EXPECT_EQ(segment.name(), "");
  EXPECT_NE(ftruncate(segment.fd(), 10), 0);
  segment.data()[kBytes - 1] = std::byte{9};
}

TEST(Segment, NamesThatAreNoFileNamesAreRefused) {
  for (const std::string name : {"", "a/b", "..\n", "a b", "ü"}) {
    EXPECT_EQ(check_segment_name(name).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(check_segment_name(std::string(201, 'a')).code(), StatusCode::kInvalidArgument);
  EXPECT_OK(check_segment_name("Job-1.ps_0"));
}

TEST(Segment, AnotherVersionSaysSo) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of(name)));
  ASSERT_OK(segment.publish());
  EXPECT_FAILS(open_it(name, 8), StatusCode::kInvalidArgument,
               "layout version 7, this build has 8");
}

TEST(Segment, DamagedOnesAreFoundBeforeTheyAreMapped) {
  EXPECT_FAILS(open_damaged([](int fd) { ASSERT_EQ(ftruncate(fd, 4096), 0); }),
               StatusCode::kCorrupt, "truncated");
  EXPECT_FAILS(open_damaged([](int fd) { ASSERT_EQ(ftruncate(fd, 10), 0); }), StatusCode::kCorrupt,
               "10 bytes");
  EXPECT_FAILS(open_damaged([](int fd) { ASSERT_EQ(ftruncate(fd, 0), 0); }), StatusCode::kCorrupt,
               "0 bytes");
  EXPECT_FAILS(open_damaged([](int fd) { ASSERT_EQ(ftruncate(fd, 5 * 4096), 0); }),
               StatusCode::kCorrupt, "extended");
  const uint64_t junk = 0x1234;
  EXPECT_FAILS(open_damaged([&](int fd) { ASSERT_EQ(pwrite(fd, &junk, 8, 0), 8); }),
               StatusCode::kCorrupt, "do not begin");
  EXPECT_FAILS(open_damaged([&](int fd) {
                 ASSERT_EQ(pwrite(fd, &junk, 8, offsetof(SegmentHeader, generation)), 8);
               }),
               StatusCode::kCorrupt, "checksum");
  EXPECT_FAILS(open_damaged([&](int fd) {
                 ASSERT_EQ(pwrite(fd, &junk, 4, offsetof(SegmentHeader, format)), 4);
               }),
               StatusCode::kInvalidArgument, "header format");
}

// Changes each bit of every byte of the header.
TEST(Segment, NoChangedBitOfTheHeaderGoesUnnoticed) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(Segment segment, Segment::create(spec_of(name)));
  ASSERT_OK(segment.publish());
  for (size_t byte = 0; byte < sizeof(SegmentHeader); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      segment.data()[byte] ^= std::byte{1} << bit;
      EXPECT_FALSE(open_it(name).ok()) << "byte " << byte << ", bit " << bit;
      segment.data()[byte] ^= std::byte{1} << bit;
    }
  }
  EXPECT_OK(open_it(name));
}

TEST(Segment, WithoutADescriptorItIsExhausted) {
  const testing::SegmentName name;
  const testing::LowLimit none(RLIMIT_NOFILE, testing::next_descriptor());
  for (const std::string& one : {std::string(), name.text()}) {
    SegmentSpec spec = spec_of("");
    spec.name = one;
    EXPECT_FAILS(Segment::create(spec), StatusCode::kExhausted, "ulimit -n");
  }
}

TEST(Segment, AboveTheLimitOfSizesItIsExhaustedAndTheProcessLives) {
  const testing::LowLimit none(RLIMIT_FSIZE, 100);
  EXPECT_FAILS(Segment::create(spec_of("")), StatusCode::kExhausted,
               "('ulimit -f'), which is 100 bytes");
}

TEST(Segment, MissingRoomIsAnErrorAndNotABusError) {
  SegmentSpec spec = spec_of("");
  const testing::SegmentName name;
  spec.name = name.text();
  spec.bytes = uint64_t{1} << 50;
  EXPECT_FAILS(Segment::create(spec), StatusCode::kExhausted, "--shm-size");
  EXPECT_FALSE(name.exists());
}

}  // namespace
}  // namespace ffdl::shm
