#include "base/launcher_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

using Variables = std::map<std::string, std::string>;

// A process that stands for a launcher.
class StandIn {
 public:
  StandIn() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = testing::fork_child();
    if (process_ == 0) {
      const std::string mark = mark_of_this_process();
      if (::write(ends[1], mark.data(), mark.size()) < 0) ::_exit(1);
      while (true) ::pause();
    }
    char mark[256] = {};
    EXPECT_GT(::read(ends[0], mark, sizeof mark - 1), 0);
    variables_ = {{"FFDL_LAUNCHER", mark}};
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~StandIn() {
    if (process_ > 0) kill();
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  const Variables& variables() const { return variables_; }
  pid_t kill() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    return std::exchange(process_, -1);
  }

 private:
  pid_t process_ = -1;
  Variables variables_;
};

TEST(LauncherWatch, WithoutALauncherNothingIsWatched) {
  for (const Variables& variables :
       {Variables{}, Variables{{"FFDL_LAUNCHER", ""}}, Variables{{"FFDL_LAUNCHER", "no mark"}},
        Variables{{"FFDL_LAUNCHER", mark_of_this_process()}}}) {
    EXPECT_OK(LauncherWatch(variables).check("a"));
  }
  EXPECT_FALSE(LauncherWatch(Variables{}).has_launcher());
}

TEST(LauncherWatch, TheEndOfTheLauncherIsSaid) {
  StandIn launcher;
  const LauncherWatch watch(launcher.variables());
  EXPECT_TRUE(watch.has_launcher());
  EXPECT_OK(watch.check("member '{}'", "worker-1"));
  const pid_t process = launcher.kill();
  ASSERT_TRUE(comes_true([&] { return watch.has_ended(); }));
  EXPECT_FAILS(watch.check("member '{}'", "worker-1"), StatusCode::kCancelled,
               "member 'worker-1': its launcher, 'ffdl run' with process id " +
                   std::to_string(process) + ", has ended");
}

// The copy of the descriptor is closed in a fork.
TEST(LauncherWatch, AForkAsksToo) {
  StandIn launcher;
  const LauncherWatch watch(launcher.variables());
  const pid_t before = testing::fork_child();
  if (before == 0) ::_exit(watch.has_ended() ? 1 : 0);
  EXPECT_EQ(testing::exit_code(before), 0);
  launcher.kill();
  const pid_t after = testing::fork_child();
  if (after == 0) ::_exit(watch.has_ended() ? 0 : 1);
  EXPECT_EQ(testing::exit_code(after), 0);
}

}  // namespace
}  // namespace ffdl::base
