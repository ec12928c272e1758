#include <gtest/gtest.h>

#include "data/formats/unpack.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// A separate program, which links the stub in place of libarchive.
namespace ffdl::data {
namespace {

TEST(NoUnpack, IsNamedWithItsOption) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(folder.write("file", "x")));
  EXPECT_FAILS(unpack(*file, Packing::kZstd, {.bytes = 1}), StatusCode::kUnimplemented,
               "-DFFDL_WITH_ARCHIVE=ON");
}

}  // namespace
}  // namespace ffdl::data
