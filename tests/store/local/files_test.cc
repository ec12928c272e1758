#include "store/local/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/low_limit.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

TEST(Files, OneTakesThePlaceOfAnother) {
  const TempFolder folder;
  EXPECT_EQ(*read_file(folder.file("f")), "");
  ASSERT_OK(replace_file(folder.file("f"), "one"));
  ASSERT_OK(replace_file(folder.file("f"), "two"));
  EXPECT_EQ(*read_file(folder.file("f")), "two");
  EXPECT_EQ(*read_file(folder.file("f.new")), "");
}

TEST(Files, WhatCannotBeUsedIsNamed) {
  const TempFolder folder;
  const std::string file = folder.write("f", "");
  EXPECT_FAILS(read_file(file + "/g"), StatusCode::kUnavailable, "f'");
  EXPECT_FAILS(replace_file(file + "/g", ""), StatusCode::kUnavailable, "f'");
  EXPECT_FAILS(replace_file(folder.file("gone/g"), ""), StatusCode::kUnavailable, "gone");
  EXPECT_FAILS(open_file(folder.file("gone/g"), O_RDONLY), StatusCode::kUnavailable, "gone");
}

TEST(Files, ALimitIsNamed) {
  const TempFolder folder;
  const std::string file = folder.write("f", "");
  {
    const testing::LowLimit none(RLIMIT_NOFILE, testing::next_descriptor());
    EXPECT_FAILS(open_file(file, O_RDONLY), StatusCode::kExhausted, "ulimit -n");
    EXPECT_FAILS(read_boot_id(), StatusCode::kExhausted, "ulimit -n");
  }
  const testing::LowLimit small(RLIMIT_FSIZE, 2);
  EXPECT_FAILS(replace_file(file, "one"), StatusCode::kExhausted, "ulimit -f");
}

TEST(Files, AFullDiskIsAnErrno) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (full.get() < 0) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(write_all(full.get(), "x"), ENOSPC);
}

}  // namespace
}  // namespace ffdl::store
