// Tests access of another user's processes to a job on the same host.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "ffdl/launch/running_job.h"
#include "ffdl/store.h"
#include "support/other_user.h"
#include "support/programs.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::as_other_user;

class OtherUserTest : public ::testing::Test {
 protected:
  OtherUserTest() {
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
    ::chmod(temporary_.path().c_str(), 0755);  // as /tmp: other users may list it
  }
  ~OtherUserTest() override { ::unsetenv("TMPDIR"); }
  std::string file(const std::string& name) const { return temporary_.file(name); }
  std::string in_job(const std::string& name) const {
    return file("ffdl-" + std::to_string(::getuid()) + "/theirs/" + name);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const TempFolder temporary_;
};

// Each child returns 1 if it gains access.
TEST_F(OtherUserTest, AJobsStoreLetsNobodyElseIn) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  StartedProgram job(
      std::string(kFfdlProgram) + " run --job theirs --workers 1:2 -- " + kMemberWorker,
      file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("joined"); })) << job.output();
  const std::string url = read(in_job("store_url"));
  ASSERT_TRUE(url.starts_with("tcp://127.0.0.1:")) << url;
  const auto opens = [](const std::string& at, const std::string& secret,
                        Duration timeout = std::chrono::milliseconds(500)) {
    StoreOptions options;
    options.operation_timeout = timeout;
    options.secret = secret;
    return open_store(at, system_runtime(), options).ok();
  };
  EXPECT_EQ(as_other_user([&] { return opens(url, "") ? 1 : 0; }), 0);
  EXPECT_EQ(as_other_user([&] { return opens(url, std::string(64, '0')) ? 1 : 0; }), 0);
  EXPECT_EQ(as_other_user([&] { return opens("tcp://" + in_job("store"), "") ? 1 : 0; }), 0);
  EXPECT_EQ(as_other_user([&] { return read(in_job("store/secret")).empty() ? 0 : 1; }), 0);
  EXPECT_EQ(as_other_user([&] {
              const std::string process = std::to_string(job.process());
              return read("/proc/" + process + "/environ").empty() ? 0 : 1;
            }),
            0);
  // The child is admitted with the secret, so the secret is what kept it out.
  const std::string secret = read(in_job("store/secret"));
  EXPECT_EQ(as_other_user([&] { return opens(url, secret, std::chrono::minutes(1)) ? 1 : 0; }), 1);
  EXPECT_TRUE(comes_true([&] { return job.wrote("refused 127.0.0.1:"); })) << job.output();
}

// Tests the command itself instead of the library below it.
TEST_F(OtherUserTest, CommandsAboutAJobOfAnotherAreRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  if (as_other_user([] { return ::access(kFfdlProgram, X_OK) == 0 ? 0 : 1; }) != 0) {
    GTEST_SKIP() << "another user may not run " << kFfdlProgram;
  }
  StartedProgram job(
      std::string(kFfdlProgram) + " run --job theirs --workers 1:2 -- " + kMemberWorker,
      file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("joined"); })) << job.output();
  const std::string url = read(in_job("store_url"));
  const std::string said = file("said");
  ASSERT_EQ(::close(::open(said.c_str(), O_CREAT | O_WRONLY, 0666)), 0);
  ASSERT_EQ(::chmod(said.c_str(), 0666), 0);
  for (const std::string& command : std::vector<std::string>{
           "status theirs", "scale theirs 1", "migrate theirs 0", "status theirs --store " + url,
           "scale theirs 1 --store " + url, "migrate theirs 0 --store " + url}) {
    const int ended = as_other_user([&] {
      const std::string line = std::string(kFfdlProgram) + " " + command + " >>" + said + " 2>&1";
      return WEXITSTATUS(std::system(line.c_str()));
    });
    EXPECT_EQ(ended, 1) << command << ": " << read(said);
  }
  EXPECT_NE(read(said).find("another secret"), std::string::npos) << read(said);
  const auto store = open_store("tcp://" + in_job("store"), system_runtime());
  ASSERT_OK(store);
  EXPECT_EQ(read_run(**store, "theirs")->wanted_workers.size(), 2U);
}

}  // namespace
}  // namespace ffdl
