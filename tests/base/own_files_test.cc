#include "base/own_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/other_user.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::base {
namespace {

unsigned mode_of(const std::string& path) {
  struct stat found = {};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

TEST(OwnFiles, FoldersAndFilesAreOfThisUserAlone) {
  const TempFolder temp;
  const mode_t before = umask(0);
  const std::string folder = temp.file("a/b");
  EXPECT_OK(make_own_folder(folder));
  EXPECT_OK(make_own_folder(folder + "//"));
  EXPECT_OK(replace_own_file(folder + "/f", "one"));
  EXPECT_OK(replace_own_file(folder + "/f", "two"));
  EXPECT_OK(open_own_file(folder + "/g", O_RDWR | O_CREAT));
  umask(before);
  EXPECT_EQ(mode_of(folder), 0700U);
  EXPECT_EQ(mode_of(folder + "/f"), 0600U);
  EXPECT_EQ(mode_of(folder + "/g"), 0600U);
  EXPECT_EQ(*read_own_file(folder + "/f"), "two");
  EXPECT_FALSE(std::filesystem::exists(folder + "/f.new"));
}

TEST(OwnFiles, WhatIsAbsentIsNotFound) {
  const TempFolder temp;
  EXPECT_FAILS(open_own_folder(temp.file("a")), StatusCode::kNotFound, "/a'");
  EXPECT_FAILS(read_own_file(temp.file("f")), StatusCode::kNotFound, "/f'");
  EXPECT_FAILS(make_own_folder(temp.write("file", "") + "/a"), StatusCode::kUnavailable, "file/a");
}

TEST(OwnFiles, ALinkIsNotFollowed) {
  const TempFolder temp;
  const std::string victim = temp.write("victim", "precious");
  const std::string real = temp.file("real");
  ASSERT_OK(make_own_folder(real));
  ASSERT_EQ(symlink(real.c_str(), temp.file("link").c_str()), 0);
  ASSERT_EQ(symlink(victim.c_str(), (real + "/f").c_str()), 0);
  ASSERT_EQ(symlink(victim.c_str(), (real + "/g.new").c_str()), 0);
  EXPECT_FAILS(make_own_folder(temp.file("link")), StatusCode::kInvalidArgument, "symbolic link");
  EXPECT_FAILS(make_own_folder(temp.file("link/")), StatusCode::kInvalidArgument, "symbolic link");
  EXPECT_FAILS(read_own_file(temp.file("link/h")), StatusCode::kInvalidArgument, "symbolic link");
  EXPECT_FAILS(open_own_file(real + "/f", O_RDWR | O_CREAT | O_TRUNC), StatusCode::kInvalidArgument,
               "symbolic link");
  EXPECT_OK(replace_own_file(real + "/f", "new"));  // replaces the link itself
  EXPECT_OK(replace_own_file(real + "/g", "new"));
  EXPECT_EQ(*read_own_file(victim), "precious");
  EXPECT_EQ(*read_own_file(real + "/f"), "new");
}

TEST(OwnFiles, AFolderThatOthersMayWriteToIsRefused) {
  const TempFolder temp;
  const std::string folder = temp.file("open");
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  for (const mode_t mode : {0770U, 0702U, 01777U}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_FAILS(make_own_folder(folder), StatusCode::kInvalidArgument, "lets other users write");
    EXPECT_FAILS(replace_own_file(folder + "/f", ""), StatusCode::kInvalidArgument, "go-w");
  }
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_OK(make_own_folder(folder));
}

TEST(OwnFiles, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TempFolder temp;
  ASSERT_EQ(mkfifo(temp.file("pipe").c_str(), 0600), 0);
  EXPECT_FAILS(read_own_file(temp.file("pipe")), StatusCode::kInvalidArgument, "not a regular");
  ASSERT_EQ(mkdir(temp.file("folder").c_str(), 0700), 0);
  EXPECT_FAILS(open_own_file(temp.file("folder"), O_RDONLY), StatusCode::kInvalidArgument,
               "not a regular");
}

TEST(OwnFiles, ALogIsOpenedInAFolderThatOthersUse) {
  const TempFolder temp;
  const mode_t before = umask(022);
  ASSERT_EQ(mkdir(temp.file("logs").c_str(), 0700), 0);
  ASSERT_EQ(symlink("logs", temp.file("link").c_str()), 0);
  for (const mode_t mode : {0755U, 01775U, 01777U}) {
    ASSERT_EQ(chmod(temp.file("logs").c_str(), mode), 0);
    for (const char* folder : {"logs", "link"}) {
      auto log = open_log_file(temp.file(folder) + "/log");
      ASSERT_OK(log);
      EXPECT_EQ(write_all(log->get(), "line\n"), 0);
      EXPECT_EQ(fcntl(log->get(), F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
    }
  }
  umask(before);
  EXPECT_EQ(mode_of(temp.file("logs/log")), 0644U);
  EXPECT_EQ(std::filesystem::file_size(temp.file("logs/log")), 6 * 5U);
  ASSERT_EQ(chmod(temp.file("logs").c_str(), 0777), 0);
  EXPECT_FAILS(open_log_file(temp.file("logs/log")), StatusCode::kInvalidArgument, "chmod");
  EXPECT_FAILS(open_log_file(temp.file("absent/log")), StatusCode::kNotFound, "absent'");
  EXPECT_OK(open_log_file("/dev/null"));
}

TEST(OwnFiles, ALogIsNoLinkAndNoPipeAndHasOneName) {
  const TempFolder temp;
  const std::string victim = temp.write("victim", "precious");
  ASSERT_EQ(symlink(victim.c_str(), temp.file("link").c_str()), 0);
  ASSERT_EQ(link(victim.c_str(), temp.file("second").c_str()), 0);
  ASSERT_EQ(mkfifo(temp.file("pipe").c_str(), 0600), 0);
  EXPECT_FAILS(open_log_file(temp.file("link")), StatusCode::kInvalidArgument, "a symbolic link");
  EXPECT_FAILS(open_log_file(temp.file("second")), StatusCode::kInvalidArgument,
               "has 2 hard links");
  EXPECT_EQ(open_log_file(temp.file("pipe")).status().code(), StatusCode::kUnavailable);
  const int reader = open(temp.file("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_FAILS(open_log_file(temp.file("pipe")), StatusCode::kInvalidArgument, "not a regular");
  close(reader);
}

// Another user has created the log folder, a link to it, or the log itself.
TEST(OwnFiles, ALogInASquattedFolderIsRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const TempFolder temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 01777), 0);
  const std::string victim = temp.write("victim", "precious");
  const std::string own = temp.file("own");
  ASSERT_EQ(mkdir(own.c_str(), 0700), 0);
  const int code = testing::as_other_user([&] {
    const std::string folder = temp.file("logs");
    const bool made = mkdir(folder.c_str(), 0755) == 0 &&
                      symlink(victim.c_str(), (folder + "/worker-0.log").c_str()) == 0 &&
                      symlink(own.c_str(), temp.file("lead").c_str()) == 0;
    std::ofstream(temp.file("worker-1.log")) << "";
    return made ? 0 : 1;
  });
  ASSERT_EQ(code, 0);
  for (const char* log : {"logs/worker-0.log", "logs/worker-1.log", "lead/worker-0.log"}) {
    EXPECT_FAILS(open_log_file(temp.file(log)), StatusCode::kInvalidArgument,
                 "belongs to user 65534");
  }
  // The kernel may refuse it first (fs.protected_regular).
  EXPECT_FALSE(open_log_file(temp.file("worker-1.log")).ok());
  EXPECT_OK(open_log_file(temp.file("worker-2.log")));  // as in /tmp itself
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
}

// Another user was first. Its folder, its link and its file are refused and stay unchanged.
TEST(OwnFiles, WhatAnotherUserMadeIsRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const TempFolder temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 01777), 0);
  const std::string victim = temp.write("victim", "precious");
  const std::string squatted = temp.file("squatted");
  ASSERT_EQ(testing::as_other_user([&] {
              return mkdir(squatted.c_str(), 0755) == 0 &&
                             symlink(victim.c_str(), (squatted + "/address").c_str()) == 0 &&
                             symlink(victim.c_str(), (squatted + "/address.new").c_str()) == 0
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_FAILS(make_own_folder(squatted), StatusCode::kInvalidArgument, "belongs to user 65534");
  EXPECT_FAILS(replace_own_file(squatted + "/address", "127.0.0.1:1"), StatusCode::kInvalidArgument,
               "belongs to user 65534");
  std::ifstream file(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");

  const std::string ours = temp.file("ours");
  ASSERT_OK(make_own_folder(ours));
  const std::string given = temp.write("ours/given", "");
  ASSERT_EQ(chown(given.c_str(), testing::kOtherUser, testing::kOtherUser), 0);
  EXPECT_FAILS(read_own_file(given), StatusCode::kInvalidArgument, "belongs to user 65534");
}

}  // namespace
}  // namespace ffdl::base
