// Tests access of another user's processes to a job on the same host.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/data/commit_log.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/store.h"
#include "support/foreign_flood.h"
#include "support/other_user.h"
#include "support/program.h"
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

// Connects as another user to each port that a sample_worker reports, before any member does.
class Stranger {
 public:
  explicit Stranger(const std::string& path) {
    sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0) << path;
    EXPECT_EQ(::listen(listener_, 16), 0);
    serving_ = std::thread([this] { serve(); });
  }
  ~Stranger() {
    ::shutdown(listener_, SHUT_RDWR);
    serving_.join();
    ::close(listener_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  int ports() const { return ports_; }

 private:
  void serve() {
    while (true) {
      const int worker = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (worker < 0) return;
      uint16_t port = 0;
      if (::read(worker, &port, sizeof port) == ssize_t{sizeof port}) {
        floods_.push_back(std::make_unique<testing::ForeignFlood>(port, 100));
        EXPECT_TRUE(floods_.back()->is_there());
        ++ports_;
        EXPECT_EQ(::write(worker, "c", 1), 1);
      }
      ::close(worker);
    }
  }

  const int listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::vector<std::unique_ptr<testing::ForeignFlood>> floods_;
  std::atomic<int> ports_ = 0;
  std::thread serving_;
};

// Tries to read a job of another user, and to replace parts of it. Returns the number of tries that
// had success.
int intrude(const std::string& users_folder, pid_t launcher) {
  const std::string job = users_folder + "/theirs";
  const std::string process = "/proc/" + std::to_string(launcher);
  int successes = 0;
  for (const std::string& path : {users_folder, job, job + "/store", job + "/store/secret",
                                  process + "/fd", process + "/environ"}) {
    successes += ::open(path.c_str(), O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0;
  }
  successes += std::rename(users_folder.c_str(), (users_folder + "-old").c_str()) == 0 ? 1 : 0;
  for (const std::string& path : {job + "/store_url", job + "/store/secret", job + "/store/log"}) {
    successes += ::unlink(path.c_str()) == 0 ? 1 : 0;
    successes += ::symlink("/dev/null", path.c_str()) == 0 ? 1 : 0;
  }
  return successes;
}

// Its folder is squatted before it starts. Then idle connections flood its store, and are the first
// at each port of its members.
TEST_F(OtherUserTest, AJobTrainsThroughFloodsAndSquats) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  ASSERT_EQ(::chmod(temporary_.path().c_str(), 01777), 0);  // as /tmp
  const std::string users_folder = file("ffdl-" + std::to_string(::getuid()));
  const std::string run = std::string(kFfdlProgram) + " run --job theirs ";
  EXPECT_EQ(as_other_user([&] { return ::mkdir(users_folder.c_str(), 0777); }), 0);
  const auto squatted = run_program(run + "true 2>&1");
  EXPECT_EQ(squatted.exit_code, 1);
  EXPECT_NE(squatted.out.find("only this user can access"), std::string::npos) << squatted.out;
  EXPECT_EQ(as_other_user([&] { return ::rmdir(users_folder.c_str()); }), 0);

  const Stranger stranger(file("ports"));
  StartedProgram job(run + "--workers 2 --max-restarts 0 --ledger-log " + file("commits") + " -- " +
                         kSampleWorker + " 8 5 " + file("ports"),
                     file("out"));
  ASSERT_TRUE(comes_true([&] { return !read(in_job("store_url")).empty(); })) << job.output();
  const std::string url = read(in_job("store_url"));
  const auto port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const auto flood = [&] { return testing::ForeignFlood(port, 1200).is_there(); };
  if (!flood()) GTEST_SKIP() << "a flood needs more descriptors";
  ASSERT_TRUE(comes_true([&] { return job.wrote("2 members from step"); })) << job.output();
  EXPECT_TRUE(flood());
  EXPECT_EQ(as_other_user([&] { return intrude(users_folder, job.process()); }), 0);
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_GE(stranger.ports(), 2);
  ASSERT_OK_AND_ASSIGN(
      const CommitAudit audit,
      audit_commit_logs({file("commits/worker-0.commits"), file("commits/worker-1.commits")},
                        {.complete = true}));
  EXPECT_EQ(audit.missing + audit.repeated + audit.problems, 0U) << job.output();
  EXPECT_EQ(audit.samples, 8U * 960);
}

}  // namespace
}  // namespace ffdl
