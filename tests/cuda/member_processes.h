#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/started_program.h"
#include "support/temp_folder.h"

// Starts ranks that are separate processes from their first instruction on, as a GPU and NCCL's
// environment require. Each runs this program with one of its disabled tests.
namespace ffdl::testing {

constexpr const char* kMemberFolder = "FFDL_TEST_FOLDER";
constexpr const char* kMemberRank = "FFDL_TEST_RANK";

// The arguments of such a test.
struct StartedMember {
  std::string store;
  int rank = 0;
};
inline std::optional<StartedMember> started_member() {
  const char* const folder = std::getenv(kMemberFolder);
  const char* const rank = std::getenv(kMemberRank);
  if (folder == nullptr || rank == nullptr) return std::nullopt;
  return StartedMember{std::string("file://") + folder, std::atoi(rank)};
}

// Starts ranks `first` to `ranks` - 1 of a world whose store is the folder. Each gets NAME=VALUE
// words of its own. `test` is its full name.
inline std::vector<std::unique_ptr<StartedProgram>> start_members(
    const std::string& test, const TempFolder& folder, int first, int ranks,
    const std::function<std::string(int rank)>& environment = [](int) { return std::string(); }) {
  std::array<char, 4096> self{};
  EXPECT_GT(readlink("/proc/self/exe", self.data(), self.size() - 1), 0);
  std::vector<std::unique_ptr<StartedProgram>> members;
  for (int rank = first; rank < ranks; ++rank) {
    const std::string number = std::to_string(rank);
    const std::string command = std::string("env ") + kMemberFolder + "='" + folder.path() + "' " +
                                kMemberRank + "=" + number + " " + environment(rank) + " '" +
                                self.data() +
                                "' --gtest_also_run_disabled_tests --gtest_filter=" + test;
    members.push_back(std::make_unique<StartedProgram>(command, folder.file("output" + number)));
  }
  return members;
}

}  // namespace ffdl::testing
