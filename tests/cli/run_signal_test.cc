// Tests `ffdl run` and `ffdl autoscale` with a store that does not answer: a signal ends them soon,
// whatever they wait for. And the signals that end no job: an ignored SIGHUP, SIGTSTP, SIGCONT.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "ffdl/store.h"
#include "support/fork_child.h"
#include "support/process_state.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/slowness.h"
#include "support/started_program.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

// The wait for a store lasts longer.
constexpr Duration kSoon = 3500ms;

// A store that another process serves.
class StoreElsewhere {
 public:
  explicit StoreElsewhere(const std::string& folder) {
    int told[2] = {-1, -1};
    EXPECT_EQ(::pipe2(told, O_CLOEXEC), 0);
    process_ = testing::fork_child();
    if (process_ == 0) {
      const auto server = StoreServer::start({.folder = folder, .address = "127.0.0.1:0"});
      if (!server.ok()) ::_exit(1);
      const std::string url = (*server)->url();
      static_cast<void>(::write(told[1], url.data(), url.size()));
      ::close(told[1]);
      while (true) ::pause();
    }
    ::close(told[1]);
    char text[256];
    const ssize_t count = ::read(told[0], text, sizeof text);
    EXPECT_GT(count, 0);
    if (count > 0) url_.assign(text, static_cast<size_t>(count));
    ::close(told[0]);
  }
  ~StoreElsewhere() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  StoreElsewhere(const StoreElsewhere&) = delete;
  StoreElsewhere& operator=(const StoreElsewhere&) = delete;

  const std::string& url() const { return url_; }
  pid_t process() const { return process_; }
  void stop() const { testing::stop_process(process_); }

 private:
  std::string url_;
  pid_t process_ = -1;
};

// Runs the job 'job' in folders of the test's own.
class SignalledJobTest : public ::testing::Test {
 protected:
  SignalledJobTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~SignalledJobTest() override { ::unsetenv("TMPDIR"); }

  std::string file(const std::string& name) const { return temporary_.file(name); }
  std::string job_folder() const { return file("ffdl-" + std::to_string(::getuid()) + "/job"); }
  std::string run(const std::string& arguments) const {
    return std::string(kFfdlProgram) + " run --job job " + arguments;
  }
  static void pause(Duration time) { system_runtime().make_event()->wait_until(deadline_in(time)); }
  // Waits until a process has this state in /proc.
  static bool comes_to_state(int process, char letter) {
    return comes_true([&] { return testing::process_state(process).letter == letter; });
  }
  // Returns true once the process has blocked the signals and waits.
  bool has_begun() const { return std::filesystem::exists(job_folder() + "/run.lock"); }

  const TempFolder temporary_;
};

class RunSignalTest : public SignalledJobTest, public ::testing::WithParamInterface<int> {
 protected:
  static std::string autoscale(const StoreElsewhere& store, const std::string& arguments) {
    return std::string(kFfdlProgram) + " autoscale --store " + store.url() + " " + arguments;
  }
  // Tells whether the program, no longer the shell, blocks the signal.
  static bool blocks_signals(const StartedProgram& program) {
    std::ifstream status("/proc/" + std::to_string(program.process()) + "/status");
    for (std::string word; status >> word;) {
      if (word != "SigBlk:" || !(status >> word)) continue;
      return (std::stoull(word, nullptr, 16) >> (GetParam() - 1) & 1U) != 0;
    }
    return false;
  }
  // Sends the signal, and expects the program's end by it.
  void expect_end(StartedProgram& job) const {
    const Time sent = deadline_in({});
    job.signal(GetParam());
    EXPECT_EQ(job.wait(), 128 + GetParam()) << job.output();
    const Duration took = deadline_in({}) - sent;
    EXPECT_LT(took, testing::allowed(kSoon)) << job.output();
  }
};

TEST_P(RunSignalTest, WhileItsStoreIsOpened) {
  const StoreElsewhere store(file("store"));
  store.stop();
  StartedProgram job(run("--store " + store.url() + " -- true"), file("out"));
  ASSERT_TRUE(comes_true([&] { return has_begun(); })) << job.output();
  pause(300ms);
  expect_end(job);
  EXPECT_TRUE(job.wrote("no worker runs")) << job.output();
}

TEST_P(RunSignalTest, WhileAnotherProcessServesItsStore) {
  const std::string store = job_folder() + "/store";
  std::filesystem::create_directories(store);
  for (const auto& folder : {file("ffdl-" + std::to_string(::getuid())), job_folder(), store}) {
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  }
  const int lock = ::open((store + "/server.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  StartedProgram job(run("-- true"), file("out"));
  ASSERT_TRUE(comes_true([&] { return has_begun(); })) << job.output();
  pause(300ms);
  expect_end(job);
  ::close(lock);
}

TEST_P(RunSignalTest, WhileItWaitsForTheSecretOfNodeZero) {
  StartedProgram job(run("--nnodes 2 --node-rank 1 --rdzv-endpoint 127.0.0.1:1 -- true"),
                     file("out"));
  const std::string folder = job_folder() + ".node-1/run.lock";
  ASSERT_TRUE(comes_true([&] { return std::filesystem::exists(folder); })) << job.output();
  pause(300ms);
  expect_end(job);
}

TEST_P(RunSignalTest, WhileItsWorkersRun) {
  const StoreElsewhere store(file("store"));
  StartedProgram job(run("--store " + store.url() + " -- sh -c 'echo up; exec sleep 1000'"),
                     file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  store.stop();
  pause(300ms);
  expect_end(job);
}

TEST_P(RunSignalTest, WhenItsWorkersHaveEnded) {
  const StoreElsewhere store(file("store"));
  // The worker ends once all threads of the store have stopped.
  const std::string process = std::to_string(store.process());
  const std::string worker = "sh -c 'echo up; kill -STOP " + process +
                             "; until ! grep -q \"^State:.[^T]\" /proc/" + process +
                             "/task/*/status; do sleep 0.01; done'";
  StartedProgram job(run("--store " + store.url() + " -- " + worker), file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  pause(500ms);
  expect_end(job);
}

TEST_P(RunSignalTest, WhileTheStoreOfTheAutoscalerIsOpened) {
  const StoreElsewhere store(file("store"));
  store.stop();
  for (const std::string arguments : {"", "--show"}) {
    StartedProgram autoscaler(autoscale(store, arguments), file("out"));
    ASSERT_TRUE(comes_true([&] { return blocks_signals(autoscaler); })) << autoscaler.output();
    pause(300ms);
    expect_end(autoscaler);
    EXPECT_TRUE(autoscaler.wrote("the jobs keep their sizes")) << autoscaler.output();
  }
}

TEST_P(RunSignalTest, WhileTheAutoscalerDecides) {
  const StoreElsewhere store(file("store"));
  StartedProgram autoscaler(autoscale(store, "--workers 3"), file("out"));
  ASSERT_TRUE(comes_true([&] {
    return run_program(autoscale(store, "--show")).out.find("3 workers") != std::string::npos;
  })) << autoscaler.output();
  pause(300ms);
  store.stop();
  pause(300ms);
  expect_end(autoscaler);
}

INSTANTIATE_TEST_SUITE_P(Signals, RunSignalTest, ::testing::Values(SIGTERM, SIGINT, SIGHUP),
                         [](const auto& parameter) {
                           return parameter.param == SIGTERM  ? "SIGTERM"
                                  : parameter.param == SIGINT ? "SIGINT"
                                                              : "SIGHUP";
                         });

TEST_F(SignalledJobTest, UnderNohupItOutlivesTheTerminal) {
  StartedProgram job("nohup " + run("-- sh -c 'echo up; until [ -e " + file("go") +
                                    " ]; do sleep 0.01; done; echo through'"),
                     file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("] up"); })) << job.output();
  job.signal(SIGHUP);
  pause(300ms);
  temporary_.write("go", "");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_TRUE(job.wrote("] through")) << job.output();
  EXPECT_FALSE(job.wrote("are asked to end")) << job.output();
}

class StoppedJobTest : public SignalledJobTest {
 protected:
  // Returns a worker that counts by bytes of a file, until the file 'go' exists.
  std::string counting_worker() const {
    return "sh -c 'echo $$ >" + file("process-") + "$RANK; until [ -e " + file("go") +
           " ]; do printf x >>" + file("count-") + "$RANK; sleep 0.01; done'";
  }
  std::array<uintmax_t, 2> counts() const {
    std::array<uintmax_t, 2> sizes{};
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      std::error_code none;
      const uintmax_t size = std::filesystem::file_size(count_file(rank), none);
      sizes[rank] = none ? 0 : size;
    }
    return sizes;
  }
  std::string count_file(size_t rank) const { return file("count-" + std::to_string(rank)); }
  bool count_on(const std::array<uintmax_t, 2>& before) const {
    const auto now = counts();
    return now[0] > before[0] && now[1] > before[1];
  }
  int process_of(size_t rank) const {
    int process = 0;
    std::ifstream(file("process-" + std::to_string(rank))) >> process;
    return process;
  }
};

TEST_F(StoppedJobTest, ItsWorkersStandStillAndGoOnWithIt) {
  StartedProgram job(run("--workers 2 -- " + counting_worker()), file("out"),
                     StartedProgram::Group::kOwn);
  ASSERT_TRUE(comes_true([&] { return count_on({}); })) << job.output();
  for (int time = 1; time <= 2; ++time) {
    job.signal(SIGTSTP);
    ASSERT_TRUE(comes_to_state(job.process(), 'T')) << job.output();
    for (const size_t rank : {0, 1}) {
      const int worker = process_of(rank);
      ASSERT_TRUE(comes_true([&] { return testing::is_stopped(worker); })) << job.output();
    }
    EXPECT_TRUE(job.wrote("ffdl: stopped, with 2 workers; continue with 'fg' or SIGCONT\n"));
    std::array<uintmax_t, 2> before{};
    const auto do_not_count = [&] {
      before = counts();
      pause(300ms);
      return counts() == before;
    };
    ASSERT_TRUE(comes_true(do_not_count)) << job.output();
    job.signal(SIGCONT);
    ASSERT_TRUE(comes_true([&] { return count_on(before); })) << job.output();
  }
  temporary_.write("go", "");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_TRUE(job.wrote("ffdl: goes on, after ")) << job.output();
}

TEST_F(StoppedJobTest, AStoppedJobEndsByASignalOnceItGoesOn) {
  StartedProgram job(run("--workers 2 -- " + counting_worker()), file("out"),
                     StartedProgram::Group::kOwn);
  ASSERT_TRUE(comes_true([&] { return count_on({}); })) << job.output();
  job.signal(SIGTSTP);
  ASSERT_TRUE(comes_to_state(job.process(), 'T')) << job.output();
  job.signal(SIGTERM);
  job.signal(SIGCONT);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.output();
}

TEST_F(StoppedJobTest, WithoutWorkersItIsStoppedAndNotEnded) {
  const StoreElsewhere store(file("store"));
  store.stop();
  StartedProgram job(run("--store " + store.url() + " -- true"), file("out"),
                     StartedProgram::Group::kOwn);
  ASSERT_TRUE(comes_true([&] { return has_begun(); })) << job.output();
  job.signal(SIGTSTP);
  ASSERT_TRUE(comes_to_state(job.process(), 'T')) << job.output();
  job.signal(SIGCONT);
  ASSERT_TRUE(comes_to_state(job.process(), 'S')) << job.output();
  ::kill(store.process(), SIGCONT);
  EXPECT_EQ(job.wait(), 0) << job.output();
}

// It leads a session, so no shell could continue it.
TEST_F(StoppedJobTest, InAnOrphanedGroupItGoesOn) {
  StartedProgram job("setsid " + run("--workers 2 -- " + counting_worker()), file("out"));
  ASSERT_TRUE(comes_true([&] { return count_on({}); })) << job.output();
  job.signal(SIGTSTP);
  ASSERT_TRUE(comes_true([&] { return job.wrote("ffdl: goes on, after 0 s"); })) << job.output();
  const auto before = counts();
  ASSERT_TRUE(comes_true([&] { return count_on(before); })) << job.output();
  temporary_.write("go", "");
  EXPECT_EQ(job.wait(), 0) << job.output();
}

TEST_F(StoppedJobTest, ItIgnoresWhatItsParentIgnored) {
  StartedProgram job("env --ignore-signal=TSTP " + run("--workers 2 -- " + counting_worker()),
                     file("out"), StartedProgram::Group::kOwn);
  ASSERT_TRUE(comes_true([&] { return count_on({}); })) << job.output();
  job.signal(SIGTSTP);
  const auto before = counts();
  ASSERT_TRUE(comes_true([&] { return count_on(before); })) << job.output();
  temporary_.write("go", "");
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_FALSE(job.wrote("stopped")) << job.output();
}

}  // namespace
}  // namespace ffdl
