#include "base/launcher_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fork_child.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(LauncherWatch, WithoutALauncherNothingIsWatched) {
  EXPECT_OK(LauncherWatch(Variables{}).check("a"));
  EXPECT_OK(LauncherWatch(Variables{{"FFDL_LAUNCHER", ""}}).check("a"));
  EXPECT_OK(LauncherWatch(Variables{{"FFDL_LAUNCHER", "no mark"}}).check("a"));
  EXPECT_OK(LauncherWatch(Variables{{"FFDL_LAUNCHER", mark_of_this_process()}}).check("a"));
}

TEST(LauncherWatch, TheEndOfTheLauncherIsSaid) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t launcher = testing::fork_child();
  if (launcher == 0) {
    const std::string mark = mark_of_this_process();
    if (::write(ends[1], mark.data(), mark.size()) < 0) ::_exit(1);
    while (true) ::pause();
  }
  char mark[256] = {};
  ASSERT_GT(::read(ends[0], mark, sizeof mark - 1), 0);
  const LauncherWatch watch(Variables{{"FFDL_LAUNCHER", mark}});
  EXPECT_OK(watch.check("worker-1"));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_FAILS(
      watch.check("worker-1"), StatusCode::kCancelled,
      "member 'worker-1': its launcher, 'ffdl run' with process id " + std::to_string(launcher));
}

}  // namespace
}  // namespace ffdl::base
