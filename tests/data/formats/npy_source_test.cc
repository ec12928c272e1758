#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::npy;
using testing::read_texts;
using Texts = std::vector<std::string>;

constexpr const char* kShape32 = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 2), }";

TEST(OpenNpy, ASampleIsARow) {
  const TempFolder folder;
  for (const bool access : {false, true}) {
    ASSERT_OK_AND_ASSIGN(
        const auto source,
        open_npy({folder.write("a.npy", npy(kShape32, "aabbccddeeff"))}, {.mapped = access}));
    EXPECT_EQ(read_texts(*source), (Texts{"aabb", "ccdd", "eeff"}));
    EXPECT_EQ(source->format().dtype, "<u2");
    EXPECT_EQ(source->format().shape, std::vector<uint64_t>{2});
  }
}

TEST(OpenNpy, AVectorHasSamplesOfOneElement) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      open_npy({folder.write(
          "a.npy", npy("{'descr': '<u2', 'fortran_order': True, 'shape': (2,), }", "aabb"))}));
  EXPECT_EQ(read_texts(*source), (Texts{"aa", "bb"}));
  EXPECT_TRUE(source->format().shape.empty());
}

TEST(OpenNpy, AnotherSizeThanTheHeaderTellsIsCountedWhereThatIsAskedFor) {
  const TempFolder folder;
  for (const auto& [bytes, rows, skipped] :
       {std::tuple("aabbccdde", 2, 1), {"aabbccddeeffgg", 3, 2}}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open_npy({folder.write("a.npy", npy(kShape32, bytes))},
                                                     {.skip_corrupt = true}));
    EXPECT_EQ(read_texts(*source).size(), static_cast<size_t>(rows));
    EXPECT_EQ(source->skipped().bytes, static_cast<uint64_t>(skipped));
    EXPECT_NE(source->skipped().first.find("a.npy': its header describes 140 bytes"),
              std::string::npos);
  }
}

TEST(OpenNpy, SaysWhatIsWrongWithWhichFile) {
  const TempFolder folder;
  const auto opened = [&](const std::string& bytes) {
    return open_npy({folder.write("a.npy", bytes)});
  };
  EXPECT_FAILS(opened(npy(kShape32, "aabbccddee")), StatusCode::kCorrupt, "describes 140 bytes");
  EXPECT_FAILS(opened(npy(kShape32, "aabbccddeeffgg")), StatusCode::kCorrupt, "the file has 142");
  EXPECT_FAILS(opened(npy(kShape32, "aabbccddee")), StatusCode::kCorrupt,
               "FileOptions::skip_corrupt");
  EXPECT_FAILS(opened("short"), StatusCode::kCorrupt,
               "a.npy': its first bytes are not those of a .npy");
  EXPECT_FAILS(opened(npy(kShape32, "").substr(0, 60)), StatusCode::kCorrupt, "within its header");
  EXPECT_FAILS(opened(npy("{'descr': '<u2', 'fortran_order': True, 'shape': (3, 2)}", "")),
               StatusCode::kUnimplemented, "Fortran order");
  for (const char* shape : {"()", "(3, 0)", "(3, 9223372036854775807, 9)", "(3, 1099511627776)",
                            "(9223372036854775807, 8)"}) {
    EXPECT_FAILS(
        opened(
            npy(fmt::format("{{'descr': '<u2', 'fortran_order': False, 'shape': {}}}", shape), "")),
        StatusCode::kInvalidArgument, "its shape has no rows");
  }
}

}  // namespace
}  // namespace ffdl
