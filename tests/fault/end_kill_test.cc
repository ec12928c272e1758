// Disturbs the ends of short jobs: each ends finished, once.
//   end_kill_test [--jobs N] [--seed S]
// Kills members around their last steps, within finish() and after it: one, several or all. Stops
// members beyond their lease or fence, and starts them again, even after the end. Asks members to
// leave, and adds newcomers, even after the end. The process that serves the store is among them.
// Each job draws its options and its disturbances from its own seed: S for the first job, S + 1 for
// the next. The first job with a wrong end ends the program with 1, the seed and the logs of its
// members.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "fault/end_kill_run.h"
#include "support/session_diary.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

namespace ffdl::end_kill {
namespace {

void print_logs(const std::string& folder) {
  for (const auto prefix : {kLogPrefix, kWorldsPrefix}) {
    for (const std::string& path : testing::files_of(folder, prefix)) {
      std::ifstream file(path);
      fmt::print("--- {}\n", std::filesystem::path(path).filename().string());
      for (std::string line; std::getline(file, line);) fmt::print("{}\n", line);
    }
  }
}

bool run_job(uint64_t seed, Board& board, Counts& counts) {
  const TempFolder folder;
  Plan plan = draw_plan(seed);
  plan.options.folder = folder.path();
  const std::string described = plan.options.describe();
  const auto problems = JobRun(std::move(plan), board, counts, seed).run();
  if (problems.empty()) return true;
  print_logs(folder.path());
  fmt::print("--- end_kill_test --jobs 1 --seed {}: {}\n", seed, described);
  for (const std::string& problem : problems) fmt::print("{}\n", problem);
  return false;
}

int run(int argc, char** argv) {
  const uint64_t jobs = testing::argument(argc, argv, "--jobs", 10);
  const uint64_t seed = testing::argument(argc, argv, "--seed", std::random_device()());
  ::setenv("FFDL_LOG", "info", 1);
  Board& board = testing::make_shared_board<Board>();
  Counts counts;
  const auto began = std::chrono::steady_clock::now();
  uint64_t done = 0;
  while (done < jobs && run_job(seed + done, board, counts)) ++done;
  const auto took = std::chrono::steady_clock::now() - began;
  fmt::print("seed {}: {} of {} jobs ended finished once, in {} s: {}: {}\n", seed, done, jobs,
             std::chrono::duration_cast<std::chrono::seconds>(took).count(), counts.describe(),
             done == jobs ? "well" : "not well");
  return done == jobs ? 0 : 1;
}

}  // namespace
}  // namespace ffdl::end_kill

int main(int argc, char** argv) { return ffdl::end_kill::run(argc, argv); }
