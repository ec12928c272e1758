#include "store/tcp/folder_secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

class FolderSecretTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::string path_ = folder_.file("secret");
};

TEST_F(FolderSecretTest, IsMadeOnceForTheOwnerAlone) {
  EXPECT_EQ(read_folder_secret(folder_.path()).value(), "");
  ::umask(0);
  ASSERT_OK_AND_ASSIGN(const std::string made, make_folder_secret(folder_.path()));
  EXPECT_EQ(made.size(), 64U);
  EXPECT_EQ(made.find_first_not_of("0123456789abcdef"), made.npos);
  EXPECT_EQ(make_folder_secret(folder_.path()).value(), made);
  EXPECT_EQ(read_folder_secret(folder_.path()).value(), made);
  struct stat found{};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  const TempFolder other;
  EXPECT_NE(make_folder_secret(other.path()).value(), made);
}

TEST_F(FolderSecretTest, AFileThatOthersCouldKnowIsRefused) {
  ASSERT_OK(make_folder_secret(folder_.path()));
  for (const mode_t mode : {0640, 0604, 0602, 0660}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kUnavailable,
                 "not a file that only this user can access");
    EXPECT_FAILS(make_folder_secret(folder_.path()), StatusCode::kUnavailable,
                 "not a file that only this user can access");
  }
}

TEST_F(FolderSecretTest, AnotherUsersFileIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "only root gives a file to another user";
  ASSERT_OK(make_folder_secret(folder_.path()));
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kUnavailable,
               "not a file that only this user can access");
}

TEST_F(FolderSecretTest, LinksAndFoldersAreRefused) {
  std::filesystem::create_symlink(folder_.write("elsewhere", std::string(64, 'a')), path_);
  EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kUnavailable, "read store secret");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 0700), 0);
  EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kUnavailable,
               "that only this user can access");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);  // opening it must not block
  EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kUnavailable,
               "that only this user can access");
}

TEST_F(FolderSecretTest, WhatIsNoSecretIsCorrupt) {
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    folder_.write("secret", text);
    ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
    EXPECT_FAILS(read_folder_secret(folder_.path()), StatusCode::kCorrupt, "hexadecimal");
  }
}

// A process that was killed while it wrote the secret leaves a part of it.
TEST_F(FolderSecretTest, WhatAKilledProcessLeftIsReplaced) {
  folder_.write("secret.new", "ab");
  EXPECT_EQ(read_folder_secret(folder_.path()).value(), "");
  EXPECT_EQ(make_folder_secret(folder_.path()).value().size(), 64U);
}

}  // namespace
}  // namespace ffdl::store
