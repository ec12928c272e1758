// Tests a full /dev/shm. The creation of a server fails, and names the space and the remedy;
// nothing is left behind. Mounts a small tmpfs, which needs root.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "ffdl/ps/parameter_server.h"
#include "support/fork_child.h"
#include "support/private_shm.h"

namespace ffdl {
namespace {

// Runs in a child with a /dev/shm of 4 MiB. Returns the problem, or nullptr.
const char* fill_small_folder() {
  ParameterServerOptions options;
  options.name = "fits-not";
  options.parameters = 1'000'000;  // 4 MB of weights, and 2 gradients per learner
  const Status refused = ParameterServer::create(options).status();
  std::printf("%s\n", refused.to_string().c_str());
  if (refused.code() != StatusCode::kExhausted) return "no error of the right kind";
  if (refused.message().find("--shm-size") == std::string_view::npos) return "no advice";
  if (!std::filesystem::is_empty("/dev/shm")) return "something was left behind";
  options.name = "fits";
  options.parameters = 10'000;
  options.learners_max = 2;
  auto server = ParameterServer::create(options);
  if (!server.ok()) return "a small server did not fit after the large one was refused";
  return nullptr;
}

TEST(FullSharedMemory, IsAnErrorAtCreationThatSaysWhatToDo) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (!testing::mount_private_shm("size=4m")) _exit(testing::kNotAllowed);
    const char* wrong = fill_small_folder();
    if (wrong != nullptr) std::printf("%s\n", wrong);
    std::fflush(stdout);
    _exit(wrong == nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == testing::kNotAllowed) {
    GTEST_SKIP() << "mounting a small /dev/shm needs root and a mount namespace";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ffdl
