// Runs the program itself. Only with --dry-run: without it, it would remove what other tests leave
// for a successor.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "ffdl/parameter_server.h"
#include "support/program.h"
#include "support/segment_name.h"

namespace ffdl {
namespace {

ProgramOutcome run(const std::string& arguments) {
  return run_program(std::string(FFDL_PROGRAM) + " " + arguments + " 2>&1");
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
  const pid_t child = fork();
  if (child == 0) {  // dies without a word, and leaves its segment
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
