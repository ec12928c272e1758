#include "shm/huge_pages.h"

#include <gtest/gtest.h>

#include <string>

#include "support/status_matchers.h"

namespace ffdl::shm {
namespace {

// The format of Linux 6 with fewer fields. Two of these mappings are in [0x7f0000000000, +8 MiB).
constexpr std::string_view kSmaps =
    "55d000000000-55d000200000 rw-p 00000000 00:00 0                          [heap]\n"
    "Size:               2048 kB\n"
    "AnonHugePages:      2048 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "VmFlags: rd wr mr mw me ac sd\n"
    "7f0000000000-7f0000400000 rw-s 00000000 00:1a 7 /dev/shm/ffdl.a (deleted)\n"
    "Rss:                4096 kB\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:     2048 kB\n"
    "FilePmdMapped:         0 kB\n"
    "7f0000400000-7f0000800000 rw-s 00400000 00:1a 7 /dev/shm/ffdl.a (deleted)\n"
    "ShmemPmdMapped:     4096 kB\n"
    "7f0000800000-7f0000c00000 rw-s 00000000 00:1a 8 /dev/shm/other\n"
    "ShmemPmdMapped:     4096 kB\n";

TEST(HugePages, AreThoseOfTheMappingAlone) {
  constexpr uint64_t kBegin = 0x7f0000000000;
  constexpr uint64_t kMib = 1 << 20;
  EXPECT_EQ(huge_mapped_bytes(kSmaps, kBegin, kBegin + 8 * kMib), 6 * kMib);
  EXPECT_EQ(huge_mapped_bytes(kSmaps, kBegin, kBegin + 4 * kMib), 2 * kMib);
  EXPECT_EQ(huge_mapped_bytes(kSmaps, 0x55d000000000, 0x55d000200000), 0U);
  EXPECT_EQ(huge_mapped_bytes(kSmaps, 0x1000, 0x2000), 0U);
  EXPECT_EQ(huge_mapped_bytes("", 0, ~uint64_t{0}), 0U);
  EXPECT_EQ(huge_mapped_bytes("1000-2000 rw-s\nShmemPmdMapped: many kB\n", 0x1000, 0x2000), 0U);
}

TEST(HugePages, TheChosenWordIsTheOneInBrackets) {
  EXPECT_EQ(chosen_word("always within_size advise [never] deny force\n"), "never");
  EXPECT_EQ(chosen_word("[always] madvise never"), "always");
  EXPECT_EQ(chosen_word("always madvise never"), "");
  EXPECT_EQ(chosen_word("] ["), "");
  EXPECT_EQ(chosen_word(""), "");
}

std::string mount_line(std::string_view folder, std::string_view options) {
  return "30 1 0:26 / " + std::string(folder) + " rw,nosuid shared:4 - tmpfs tmpfs " +
         std::string(options) + "\n";
}

TEST(HugePages, TheMountDecidesWithItsLastLine) {
  const std::string small = mount_line("/dev/shm", "rw,size=65536k,inode64");
  const std::string advise = mount_line("/dev/shm", "rw,huge=advise,inode64");
  const std::string other = mount_line("/tmp", "rw,huge=always");
  EXPECT_EQ(mounted_huge_option(small + other, "/dev/shm"), "never");
  EXPECT_EQ(mounted_huge_option(other + advise, "/dev/shm"), "advise");
  EXPECT_EQ(mounted_huge_option(small + advise, "/dev/shm"), "advise");
  EXPECT_EQ(mounted_huge_option(advise + small, "/dev/shm"), "never");
  EXPECT_EQ(mounted_huge_option("", "/dev/shm"), "never");
  EXPECT_EQ(mounted_huge_option("no mount at all\n\n", "/dev/shm"), "never");
}

TEST(HugePages, WhoDecidesDependsOnTheName) {
  const std::string granting = mount_line("/dev/shm", "rw,huge=within_size");
  const std::string refusing = mount_line("/dev/shm", "rw");
  struct Case {
    bool named;
    std::string_view enabled;
    std::string_view mounts;
    bool possible;
    std::string_view note;
  };
  const Case cases[] = {
      {true, "[never] deny", granting, true, "/dev/shm has huge=within_size"},
      {true, "[advise] never", refusing, false, "remount,huge=advise"},
      {true, "never [deny] force", granting, false, "'deny'"},
      {true, "never deny [force]", refusing, true, "'force'"},
      {false, "[never] deny", granting, false, "'never'"},
      {false, "always [advise] never", refusing, true, "'advise'"},
      {true, "", granting, false, "no huge pages"},
      {false, "", refusing, false, "no huge pages"},
  };
  for (const Case& c : cases) {
    const HugePageGrant grant = huge_page_grant(c.named, c.enabled, c.mounts);
    EXPECT_EQ(grant.possible, c.possible) << c.enabled << " " << c.mounts;
    EXPECT_NE(grant.note.find(c.note), std::string::npos) << grant.note;
  }
}

TEST(HugePages, OfASegmentAreNoMoreThanTheSegment) {
  ASSERT_OK_AND_ASSIGN(const Segment segment, Segment::create({.bytes = 8 << 20}));
  const HugePages pages = read_huge_pages(segment);
  EXPECT_LE(pages.bytes, segment.bytes());
  EXPECT_EQ(pages.bytes % (2 << 20), 0U);
  EXPECT_FALSE(pages.note.empty());
}

}  // namespace
}  // namespace ffdl::shm
