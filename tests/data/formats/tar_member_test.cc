#include "data/formats/tar_member.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/source_text.h"

namespace ffdl::data {
namespace {

using testing::tar_end;
using testing::tar_member;

Result<std::optional<TarMember>> member_at(uint64_t offset, const std::string& archive) {
  return read_tar_member(offset, [&](uint64_t at, size_t bytes) {
    const auto all = std::as_bytes(std::span(archive));
    const auto rest = all.subspan(std::min<size_t>(at, all.size()));
    return Result<std::span<const std::byte>>(rest.first(std::min(bytes, rest.size())));
  });
}

std::string pax(const std::string& line) {
  const size_t size = line.size() + 1 + 3;  // "27 path=...\n", lengths of two digits
  return tar_member("pax", fmt::format("{} {}\n", size, line), 'x');
}

TEST(TarMember, TellsWhereBytesLie) {
  const std::string archive = tar_member("a.txt", "hello") + tar_end();
  ASSERT_OK_AND_ASSIGN(const auto member, member_at(0, archive));
  ASSERT_TRUE(member);
  EXPECT_EQ(member->path, "a.txt");
  EXPECT_EQ(member->begin, 0U);
  EXPECT_EQ(archive.substr(member->data, member->bytes), "hello");
  EXPECT_EQ(member->end, 1024U);
  EXPECT_TRUE(member->is_file);
  ASSERT_OK_AND_ASSIGN(const auto end, member_at(1024, archive));
  EXPECT_FALSE(end);
}

TEST(TarMember, LongNamesComeBeforeTheirMember) {
  const std::string path = std::string(150, 'd') + "/x.png";
  for (const std::string& before :
       {tar_member("././@LongLink", path + std::string(1, '\0'), 'L'),
        tar_member("pax", fmt::format("{} path={}\n", 6 + path.size() + 4, path), 'x')}) {
    ASSERT_OK_AND_ASSIGN(const auto member,
                         member_at(0, before + tar_member("short", "1234") + tar_end()));
    ASSERT_TRUE(member);
    EXPECT_EQ(member->path, path);
    EXPECT_EQ(member->begin, 0U);
    EXPECT_EQ(member->data, before.size() + 512);
  }
  std::string split = tar_member("x.png", "");
  split.replace(345, 3, "abc");
  uint64_t sum = 0;
  for (size_t i = 0; i < 512; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(split[i]);
  }
  split.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  ASSERT_OK_AND_ASSIGN(const auto member, member_at(0, split));
  EXPECT_EQ(member->path, "abc/x.png");
}

TEST(TarMember, ASizeMayStandInAPaxHeaderOrInBinary) {
  ASSERT_OK_AND_ASSIGN(const auto said, member_at(0, pax("size=700") + tar_member("a", "")));
  EXPECT_EQ(said->bytes, 700U);
  std::string binary = tar_member("a", "");
  binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\1\2\3", 12));
  uint64_t sum = 0;
  for (size_t i = 0; i < 512; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(binary[i]);
  }
  binary.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  ASSERT_OK_AND_ASSIGN(const auto large, member_at(0, binary));
  EXPECT_EQ(large->bytes, 0x010203U);
}

TEST(TarMember, RefusesWhatIsNoArchive) {
  const std::string good = tar_member("a", "1234");
  EXPECT_FAILS(member_at(0, ""), StatusCode::kCorrupt, "without the end of the archive");
  EXPECT_FAILS(member_at(0, pax("path=abc")), StatusCode::kCorrupt,
               "the end of the archive, 1024 bytes into a member,");
  std::string bad = good;
  bad[3] ^= 1;
  EXPECT_FAILS(member_at(0, bad), StatusCode::kCorrupt, "no header of a member");
  EXPECT_FAILS(member_at(0, tar_member("a", "", '2')), StatusCode::kUnimplemented,
               "a link, a device or a sparse file at byte 0; write the archive");
  EXPECT_FAILS(member_at(0, tar_member("x", "99 path=a\n", 'x') + good), StatusCode::kCorrupt,
               "a bad header");
  EXPECT_FAILS(member_at(0, pax("path=abc") + tar_end()), StatusCode::kCorrupt,
               "without the member that it announces");
  EXPECT_FAILS(member_at(0, pax("GNU.sparse.major=1") + good), StatusCode::kCorrupt, "bad header");
}

TEST(TarMember, NamesAreSplitAsWebDatasetDoes) {
  const auto split = [](std::string_view path) {
    const TarName name = split_tar_path(path);
    return std::pair<std::string, std::string>(name.key, name.name);
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split("a.png"), (Pair{"a", "png"}));
  EXPECT_EQ(split("x.y/a.left.png"), (Pair{"x.y/a", "left.png"}));
  EXPECT_EQ(split("./a"), (Pair{"./a", ""}));
}

}  // namespace
}  // namespace ffdl::data
