// Runs the program itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ffdl/ps/learner.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

ProgramOutcome stats(const std::string& arguments) {
  return run_program(std::string(kFfdlProgram) + " stats " + arguments + " 2>&1");
}

TEST(Stats, ShowsWhatAServerHasDone) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server,
                       ParameterServer::create({.name = name.text(), .parameters = 10}));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s)));
  ASSERT_OK(learner->push(std::vector<float>(10, 1.0F), {.begin = 0, .end = 7}));
  ASSERT_OK(learner->flush(deadline_in(60s)));

  const auto json = stats("--json " + name.text());
  ASSERT_EQ(json.exit_code, 0) << json.out;
  const auto told = nlohmann::json::parse(json.out);
  EXPECT_EQ(told["version"], 1);
  EXPECT_EQ(told["server_alive"], true);
  EXPECT_EQ(told["partitions"][0]["samples"], 7);
  EXPECT_EQ(told["learners"][0]["mini_batches"], 1);
  EXPECT_EQ(told["staleness"][0], 1);
  EXPECT_EQ(told["memory"]["shard_nodes"].size(), 1U);

  const auto table = stats(name.text());
  EXPECT_EQ(table.exit_code, 0);
  for (const auto* const part : {"alive", "samples committed 7", "100.0 %", "in huge pages"}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  }
}

TEST(Stats, SaysThatThereIsNoSuchServer) {
  const auto outcome = stats("no-such-server");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("'no-such-server'"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace ffdl
