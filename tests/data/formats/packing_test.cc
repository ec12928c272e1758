#include "data/formats/packing.h"

#include <gtest/gtest.h>

#include <string>

namespace ffdl::data {
namespace {

TEST(Packing, IsSeenByTheFirstBytes) {
  using std::string_literals::operator""s;
  const struct {
    std::string begin;
    Packing packing;
  } cases[] = {
      {"\x1f\x8b\x08\0\0"s, Packing::kGzip},
      {"\x1f\x8b\x07\0\0"s, Packing::kNone},
      {"BZh91AY&SYxxxx", Packing::kBzip2},
      {"BZh is how a line may begin", Packing::kNone},
      {"BZh", Packing::kNone},
      {"\xfd\x37zXZ\0xxxx"s, Packing::kXz},
      {"\x28\xb5\x2f\xfd", Packing::kZstd},
      {"\x04\x22\x4d\x18", Packing::kLz4},
      {"\x28\xb5\x2f", Packing::kNone},
      {"", Packing::kNone},
  };
  for (const auto& [begin, packing] : cases) {
    EXPECT_EQ(packing_of(std::as_bytes(std::span(begin))), packing) << begin;
  }
}

TEST(Packing, IsNamedByAnIndex) {
  EXPECT_EQ(packing_named("zstd"), Packing::kZstd);
  EXPECT_EQ(packing_named("zstd:22"), Packing::kZstd);
  EXPECT_EQ(packing_named("gz:9"), Packing::kGzip);
  EXPECT_EQ(packing_named("bz2"), Packing::kBzip2);
  EXPECT_EQ(packing_named("br"), std::nullopt);
  EXPECT_EQ(packing_named(""), std::nullopt);
}

}  // namespace
}  // namespace ffdl::data
