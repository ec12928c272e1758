#include "cli/job_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/low_limit.h"
#include "support/other_user.h"
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
    EXPECT_FAILS(store_url_of("digits"), StatusCode::kNotFound, "");  // its URL is not written yet
    ASSERT_OK(folder.write_store_url("tcp://127.0.0.1:1"));
    EXPECT_EQ(store_url_of("digits").value(), "tcp://127.0.0.1:1");
    EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kConflict, "another 'ffdl run'");
    EXPECT_OK(JobFolder::create("other"));
  }
  // As after a kill, the folder exists and no process runs the job.
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kNotFound, "no 'ffdl run'");
  ASSERT_OK_AND_ASSIGN(JobFolder again, JobFolder::create("digits"));
  again.remove();
  EXPECT_FALSE(std::filesystem::exists(users() + "/digits"));
}

TEST_F(JobFolderTest, TheRefusalNamesTheProcess) {
  ASSERT_OK_AND_ASSIGN(JobFolder folder, JobFolder::create("digits"));
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kConflict,
               "runs it, as process " + std::to_string(::getpid()) + ";");
}

// Models three jobs without a name after kills. One of them runs, and a worker of another serves
// its store.
TEST_F(JobFolderTest, ThoseOfKilledJobsWithoutANameAreRemoved) {
  ASSERT_OK(JobFolder::create("named")->write_store_url("tcp://127.0.0.1:1"));
  ASSERT_OK(JobFolder::create("job-1", /*is_named=*/false));
  ASSERT_OK_AND_ASSIGN(JobFolder runs, JobFolder::create("job-2", /*is_named=*/false));
  ASSERT_OK(JobFolder::create("job-3", /*is_named=*/false));
  std::filesystem::create_directory(users() + "/job-3/store");
  const std::string served = users() + "/job-3/store/server.lock";
  const int lock = ::open(served.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  std::filesystem::create_directory(users() + "/begins");  // it has no lock yet

  ASSERT_OK_AND_ASSIGN(const auto found, list_job_folders());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].job, "job-1");
  EXPECT_FALSE(found[0].is_named || found[0].in_use);
  EXPECT_EQ(found[0].process, ::getpid());
  EXPECT_TRUE(found[1].in_use && found[2].in_use);
  EXPECT_TRUE(found[3].is_named && !found[3].in_use);

  EXPECT_FAILS(remove_job_folder("named"), StatusCode::kConflict, "has a name");
  EXPECT_FAILS(remove_job_folder("job-2"), StatusCode::kConflict, "is in use");
  EXPECT_FAILS(remove_job_folder("job-3"), StatusCode::kConflict, "is in use");
  EXPECT_OK(remove_dead_folders());
  EXPECT_FALSE(std::filesystem::exists(users() + "/job-1"));
  for (const char* kept : {"/named", "/job-2", "/job-3", "/begins"}) {
    EXPECT_TRUE(std::filesystem::exists(users() + kept)) << kept;
  }
  ::close(lock);
  EXPECT_OK(remove_dead_folders());
  EXPECT_FALSE(std::filesystem::exists(users() + "/job-3"));
  // A job that is created again under this name counts as named.
  ASSERT_OK(JobFolder::create("job-4", /*is_named=*/false));
  ASSERT_OK(JobFolder::create("job-4")->write_store_url("tcp://127.0.0.1:1"));
  EXPECT_OK(remove_dead_folders());
  EXPECT_TRUE(std::filesystem::exists(users() + "/job-4"));
}

// The process was killed between creating its lock and its mark. No job can continue from such a
// folder.
TEST_F(JobFolderTest, OneThatHasALockAloneIsNobodys) {
  ASSERT_OK(JobFolder::create("job-1", /*is_named=*/false));
  std::filesystem::remove(users() + "/job-1/unnamed");
  ASSERT_OK_AND_ASSIGN(const auto found, list_job_folders());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].is_named);
  {
    // nothing is stored in it yet
    ASSERT_OK_AND_ASSIGN(JobFolder begins, JobFolder::create("begins"));
    EXPECT_OK(remove_dead_folders());
    EXPECT_TRUE(std::filesystem::exists(users() + "/begins"));
  }
  EXPECT_FALSE(std::filesystem::exists(users() + "/job-1"));
}

// The Python package creates a lock file there while it creates or ends a parameter server.
TEST_F(JobFolderTest, AFileBesideThemIsNoJobs) {
  ASSERT_OK(JobFolder::create("job-1", /*is_named=*/false));
  std::ofstream(users() + "/a.server-lock").flush();
  ASSERT_OK_AND_ASSIGN(const auto found, list_job_folders());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].job, "job-1");
  EXPECT_OK(remove_dead_folders());
  EXPECT_FALSE(std::filesystem::exists(users() + "/job-1"));
  EXPECT_TRUE(std::filesystem::exists(users() + "/a.server-lock"));
}

TEST_F(JobFolderTest, ALimitIsNamed) {
  ASSERT_OK(JobFolder::create("digits"));
  const testing::LowLimit none(RLIMIT_NOFILE, testing::next_descriptor());
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kExhausted, "ulimit -n");
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kExhausted, "ulimit -n");
  EXPECT_FAILS(list_job_folders(), StatusCode::kExhausted, "ulimit -n");
}

TEST_F(JobFolderTest, ATemporaryFolderThatIsNotThereIsSaid) {
  ::setenv("TMPDIR", temporary_.file("not-there").c_str(), 1);
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable, "TMPDIR does not exist");
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kUnavailable, "TMPDIR does not exist");
  EXPECT_FAILS(list_job_folders(), StatusCode::kUnavailable, "TMPDIR does not exist");
  ::setenv("TMPDIR", temporary_.write("file", "").c_str(), 1);
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable, "TMPDIR does not exist");
}

TEST_F(JobFolderTest, IsForTheUserAlone) {
  ASSERT_OK(JobFolder::create("digits"));
  struct stat folder{};
  ASSERT_EQ(::stat(users().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700U);
  ASSERT_EQ(::chmod(users().c_str(), 0755), 0);
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable,
               "that only this user can access");
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kUnavailable, "that only this user can access");
}

// Another user holds the lock of a job of this name. The URL of its store is not followed.
TEST_F(JobFolderTest, AFolderOfAnotherUserIsNotFollowed) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  ASSERT_EQ(::chmod(temporary_.path().c_str(), 01777), 0);
  const std::string squatted = users();
  const int code = testing::as_other_user([&] {
    const std::string job = squatted + "/digits";
    const bool made = ::mkdir(squatted.c_str(), 0755) == 0 && ::mkdir(job.c_str(), 0755) == 0;
    std::ofstream(job + "/store_url") << "tcp://127.0.0.1:1";
    std::ofstream(job + "/run.lock") << "";
    return made ? 0 : 1;
  });
  ASSERT_EQ(code, 0);
  const int lock = ::open((squatted + "/digits/run.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kUnavailable, "that only this user can access");
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable,
               "that only this user can access");
  ::close(lock);
}

// The owner of the parent can replace this user's folder at any time.
TEST_F(JobFolderTest, OneBelowAFolderOfAnotherUserIsNotFollowed) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  {
    ASSERT_OK_AND_ASSIGN(JobFolder folder, JobFolder::create("digits"));
    ASSERT_OK(folder.write_store_url("tcp://127.0.0.1:1"));
    ASSERT_EQ(::chown(temporary_.path().c_str(), testing::kOtherUser, 0), 0);
    const std::string expected = "belongs to user 65534";
    EXPECT_FAILS(store_url_of("digits"), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(JobFolder::create("other"), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(list_job_folders(), StatusCode::kInvalidArgument, expected);
    ASSERT_EQ(::chown(temporary_.path().c_str(), 0, 0), 0);
    EXPECT_OK(store_url_of("digits"));
    ASSERT_EQ(::chmod(temporary_.path().c_str(), 0777), 0);
    EXPECT_FAILS(store_url_of("digits"), StatusCode::kInvalidArgument, "chmod go-w");
  }
}

TEST_F(JobFolderTest, ANameIsOneFolder) {
  const std::string long_name(300, 'x');
  for (const char* name : {"", ".", "..", "a/b", "/a", "a b", "a\n", long_name.c_str()}) {
    EXPECT_FAILS(JobFolder::create(name), StatusCode::kInvalidArgument, "it is not a valid name");
    EXPECT_FAILS(store_url_of(name), StatusCode::kInvalidArgument, "it is not a valid name");
  }
}

TEST_F(JobFolderTest, ALinkIsNotFollowed) {
  std::filesystem::create_directory(temporary_.file("elsewhere"));
  std::filesystem::create_symlink(temporary_.file("elsewhere"), users());
  EXPECT_FAILS(JobFolder::create("digits"), StatusCode::kUnavailable,
               "that only this user can access");
  EXPECT_FAILS(store_url_of("digits"), StatusCode::kUnavailable, "that only this user can access");
}

}  // namespace
}  // namespace ffdl::cli
