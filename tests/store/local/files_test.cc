#include "store/local/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "support/low_limit.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/time_namespace.h"

namespace ffdl::store {
namespace {

bool has_time_namespaces() { return ::access("/proc/self/ns/time", F_OK) == 0; }

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
    if (has_time_namespaces()) {
      EXPECT_FAILS(read_clock_offset(), StatusCode::kExhausted, "ulimit -n");
    }
  }
  const testing::LowLimit small(RLIMIT_FSIZE, 2);
  EXPECT_FAILS(replace_file(file, "one"), StatusCode::kExhausted, "ulimit -f");
}

TEST(Files, TheOffsetOfATimeNamespaceIsRead) {
  ASSERT_OK(read_clock_offset());
  const int outcome = testing::in_time_namespace([&] {
    const auto offset = read_clock_offset();
    return offset.ok() && *offset == std::chrono::seconds(100'000) ? 0 : 1;
  });
  if (outcome == testing::kNoTimeNamespace) GTEST_SKIP() << "there are no time namespaces here";
  EXPECT_EQ(outcome, 0);
}

TEST(Files, ATimeNamespaceForChildrenAloneIsRefused) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (!testing::make_time_namespace()) ::_exit(testing::kNoTimeNamespace);
    const Status status = read_clock_offset().status();
    const bool is_named = status.message().find("time namespace") != status.message().npos;
    ::_exit(status.code() == StatusCode::kInvalidArgument && is_named ? 0 : 1);
  }
  const int outcome = testing::exit_code(child);
  if (outcome == testing::kNoTimeNamespace) GTEST_SKIP() << "there are no time namespaces here";
  EXPECT_EQ(outcome, 0);
}

TEST(Files, AFullDiskIsAnErrno) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (full.get() < 0) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(write_all(full.get(), "x"), ENOSPC);
}

}  // namespace
}  // namespace ffdl::store
