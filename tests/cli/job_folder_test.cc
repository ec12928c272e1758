#include "cli/job_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::cli {
namespace {

class JobFolderTest : public ::testing::Test {
 protected:
  JobFolderTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~JobFolderTest() override { ::unsetenv("TMPDIR"); }
  std::string users() const { return temporary_.file("ffdl-" + std::to_string(::getuid())); }

  const TempFolder temporary_;
};

TEST_F(JobFolderTest, TellsWhereTheStoreIsWhileTheJobRuns) {
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kNotFound, "find job 'digits'");
  {
    ASSERT_OK_AND_ASSIGN(JobFolder folder, JobFolder::create("digits"));
    EXPECT_EQ(folder.store_folder(), users() + "/digits/store");
    EXPECT_FAILS(store_url_of("digits"), StatusCode::kNotFound, "");  // not open yet
    ASSERT_OK(folder.write_store_url("tcp://127.0.0.1:1"));
    EXPECT_EQ(store_url_of("digits").value(), "tcp://127.0.0.1:1");
    EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kConflict, "another 'ffdl run'");
    EXPECT_OK(JobFolder::create("other"));
  }
  // As after a kill: the folder is there, and nobody runs the job.
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kNotFound, "no 'ffdl run'");
  ASSERT_OK_AND_ASSIGN(JobFolder again, JobFolder::create("digits"));
  again.remove();
  EXPECT_FALSE(std::filesystem::exists(users() + "/digits"));
}

TEST_F(JobFolderTest, IsForTheUserAlone) {
  ASSERT_OK(JobFolder::create("digits"));
  struct stat folder{};
  ASSERT_EQ(::stat(users().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700U);
  ASSERT_EQ(::chmod(users().c_str(), 0755), 0);
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable, "of this user alone");
}

TEST_F(JobFolderTest, ANameIsOneFolder) {
  for (const char* name : {"", ".", "..", "a/b", "/a"}) {
    EXPECT_FAILS(JobFolder::create(name), StatusCode::kInvalidArgument, "it is no name");
    EXPECT_FAILS(store_url_of(name), StatusCode::kInvalidArgument, "it is no name");
  }
}

TEST_F(JobFolderTest, ALinkIsNotFollowed) {
  std::filesystem::create_directory(temporary_.file("elsewhere"));
  std::filesystem::create_symlink(temporary_.file("elsewhere"), users());
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable, "of this user alone");
}

}  // namespace
}  // namespace ffdl::cli
