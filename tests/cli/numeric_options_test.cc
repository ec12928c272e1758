// Tests every numeric option of the commands with texts that are not numbers.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/programs.h"

namespace ffdl {
namespace {

const std::string kProgram = kFfdlProgram;

std::vector<std::string> commands() {
  return {"autoscale", "offer", "plan",     "policy replay", "profile",
          "run",       "scale", "simulate", "migrate",       "data audit"};
}

std::vector<std::string> no_numbers() {
  return {"nan", "-inf", "-1", "1e400", "''", "1x", std::string(309, '9')};
}

// Returns the options of a command that take a number, read from its help.
std::set<std::string> numeric_options(const std::string& command) {
  std::set<std::string> options;
  std::istringstream help(run_program(kProgram + " " + command + " --help").out);
  const std::regex number("^ +(--[a-z-]+)(,[^ ]*)? (INT|UINT|FLOAT).*");
  std::smatch found;
  for (std::string line; std::getline(help, line);) {
    if (std::regex_match(line, found, number)) options.insert(found[1]);
  }
  return options;
}

TEST(NumericOptions, WhatIsNoNumberIsRefused) {
  size_t tried = 0;
  for (const std::string& command : commands()) {
    for (const std::string& option : numeric_options(command)) {
      for (const std::string& value : no_numbers()) {
        const std::string quoted = value.front() == '\'' ? value : "'" + value + "'";
        const auto outcome = run_program("timeout 20 " + kProgram + " " + command + " " + option +
                                         "=" + quoted + " 2>&1");
        EXPECT_EQ(outcome.exit_code, 2)
            << command << " " << option << "=" << value << ": " << outcome.out;
        EXPECT_NE(outcome.out.find(option), std::string::npos)
            << command << " " << option << "=" << value << ": " << outcome.out;
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 20 * no_numbers().size());  // the help was parsed
}

// Tests numbers that the help lists as texts since they may be ranges, and positional ones.
TEST(NumericOptions, RangesAndPlacesToo) {
  const std::string digits(309, '9');
  for (const std::string& value :
       {std::string("nan"), std::string("inf"), std::string("-1"), std::string("0"),
        std::string("1.5"), std::string("1e3"), std::string("1x"), std::string(":"),
        std::string("2:1"), std::string("1:"), std::string(":1"), std::string("99999999999"),
        "1:" + digits, digits, digits + ":" + digits}) {
    for (const char* option : {"--workers", "--nnodes", "--nproc-per-node"}) {
      if (std::string(option) == "--nproc-per-node" && value.find(':') != value.npos) continue;
      const auto outcome = run_program("timeout 20 " + kProgram + " run " + option + " '" + value +
                                       "' -- true 2>&1");
      EXPECT_EQ(outcome.exit_code, 2) << option << " " << value << ": " << outcome.out;
      EXPECT_NE(outcome.out.find(option), std::string::npos) << outcome.out;
    }
  }
  for (const std::string& command :
       {std::string("scale job nan"), std::string("scale job -- -1"), "scale job " + digits,
        std::string("migrate job inf"), std::string("migrate job 0 -- -1"),
        "migrate job 0 " + digits, std::string("offer --store mem:// node nan"),
        "offer --store mem:// node " + digits,
        std::string("run --nnodes 1000000 --nproc-per-node 1000000 true"),
        std::string("run --rdzv-endpoint localhost:65535 true"),
        "run --rdzv-endpoint localhost:" + digits + " true"}) {
    const auto outcome = run_program("timeout 20 " + kProgram + " " + command + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << command << ": " << outcome.out;
    EXPECT_FALSE(outcome.out.empty());
  }
}

}  // namespace
}  // namespace ffdl
