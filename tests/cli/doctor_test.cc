// Runs the program itself. Without --dry-run it would remove the leftovers of other tests, so that
// needs a /dev/shm of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ffdl/ps/parameter_server.h"
#include "support/fork_child.h"
#include "support/other_user.h"
#include "support/private_shm.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/segment_name.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

ProgramOutcome run(const std::string& arguments) {
  return run_program(std::string(kFfdlProgram) + " " + arguments + " 2>&1");
}

std::string verdict_on(const std::string& name) {
  const auto outcome = run("doctor --dry-run --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  const auto listed = nlohmann::json::parse(outcome.out);
  for (const auto& segment : listed["segments"]) {
    if (segment["name"] == name) return segment["verdict"];
  }
  return "not listed";
}

TEST(Doctor, TellsAServersSegmentFromADeadOnes) {
  const testing::SegmentName name;
  const pid_t child = testing::fork_child();
  if (child == 0) {  // ends without cleaning up, and leaves its segment
    auto server = ParameterServer::create({.name = name.text(), .parameters = 10});
    _exit(server.ok() ? 0 : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  ASSERT_EQ(WEXITSTATUS(state), 0);
  EXPECT_EQ(verdict_on(name.text()), "stale");
  {
    const auto successor = ParameterServer::adopt(name.text());
    ASSERT_TRUE(successor.ok()) << successor.status().to_string();
    EXPECT_EQ(verdict_on(name.text()), "in use");
  }
  EXPECT_EQ(verdict_on(name.text()), "not listed");
}

constexpr const char* kForeign = "/dev/shm/ffdl.foreign";

// Runs in a child that has a /dev/shm and a folder for temporary files of its own.
int remove_all_that_is_stale(const std::string& folder) {
  if (!testing::mount_private_shm("size=4m")) return testing::kNotAllowed;
  ::setenv("TMPDIR", folder.c_str(), 1);
  const std::string users = folder + "/ffdl-" + std::to_string(::getuid());
  const auto make = [&](const std::string& job, const char* mark) {
    ::mkdir(users.c_str(), 0700);
    ::mkdir((users + "/" + job).c_str(), 0700);
    for (const char* file : {"/run.lock", mark}) std::ofstream(users + "/" + job + file) << "1";
  };
  make("job-1", "/unnamed");
  make("job-2", "/unnamed");
  make("kept", "/store_url");
  const int held = ::open((users + "/job-2/run.lock").c_str(), O_RDWR | O_CLOEXEC);
  ::flock(held, LOCK_EX);
  const pid_t dies = testing::fork_child();
  if (dies == 0) ::_exit(ParameterServer::create({.name = "stale", .parameters = 10}).ok() ? 0 : 1);
  ::waitpid(dies, nullptr, 0);
  std::ofstream(kForeign) << "x";
  if (::chown(kForeign, testing::kOtherUser, testing::kOtherUser) != 0) return 1;
  const auto outcome = run("doctor --json");
  const auto found = nlohmann::json::parse(outcome.out, nullptr, false);
  if (outcome.exit_code != 0 || found.is_discarded()) return 2;
  const auto verdict = [&](const char* list, const char* key, const std::string& name) {
    for (const auto& one : found[list]) {
      if (one[key] == name) return one["verdict"].get<std::string>();
    }
    return std::string("not listed");
  };
  const auto exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  if (verdict("jobs", "job", "job-1") != "removed" || exists(users + "/job-1")) return 3;
  if (verdict("jobs", "job", "job-2") != "in use" || !exists(users + "/job-2")) return 4;
  if (verdict("jobs", "job", "kept") != "kept" || !exists(users + "/kept")) return 5;
  if (verdict("segments", "name", "stale") != "removed") return 6;
  if (verdict("segments", "name", "foreign") != "of another user") return 7;
  return !exists("/dev/shm/ffdl.stale") && exists(kForeign) ? 0 : 8;
}

TEST(Doctor, RemovesWhatIsStaleAndThatAlone) {
  const TempFolder folder;
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(remove_all_that_is_stale(folder.path()));
  int state = 0;
  waitpid(child, &state, 0);
  if (WEXITSTATUS(state) == testing::kNotAllowed) GTEST_SKIP() << "/dev/shm cannot be mounted here";
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(Program, SaysWhatItCanDoAndRefusesTheRest) {
  const ProgramOutcome unknown = run("doktor 2>&1");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.out.find("there is no command 'doktor'"), std::string::npos) << unknown.out;
  const ProgramOutcome help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("doctor"), std::string::npos) << help.out;
  EXPECT_NE(run("").exit_code, 0);
  EXPECT_NE(run("no-such-verb").exit_code, 0);
}

}  // namespace
}  // namespace ffdl
