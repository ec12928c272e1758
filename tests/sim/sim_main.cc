// Runs simulations of membership, each from a seed of its own.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/log.h"
#include "sim/cluster.h"
#include "sim/sim_runtime.h"
#include "support/fork_child.h"

namespace ffdl::sim {
namespace {

constexpr uint64_t kJobsMax = 64;

constexpr std::string_view kUsage =
    "usage: sim_main [--seed N | --seeds N [--seconds S] [--first N] [--jobs N]] [--mutant NAME]\n"
    "                [--of session|ledger] [--epochs N] [--trouble all] [--expect found]\n"
    "\n"
    "  --seed N        this schedule alone, twice: it must be the same both times\n"
    "  --seeds N       so many schedules, or fewer if the time is over\n"
    "  --seconds S     for so long at most\n"
    "  --first N       their seeds from here on; otherwise from FFDL_TEST_SEED, or fresh ones\n"
    "  --jobs N        in so many processes\n"
    "  --of session    the real Session above the real Membership; otherwise one made for the\n"
    "                  test, which also publishes checkpoints; or --of ledger: workers without\n"
    "                  membership, each with a ledger in a store\n"
    "  --epochs N      so many epochs of sessions or ledgers, and not some seconds\n"
    "  --trouble all   of sessions: in each schedule links are cut and return, checkpoints are on\n"
    "                  a disk, members go back to them together, and the job ends; otherwise a\n"
    "                  quarter has links, another a disk\n"
    "  --mutant NAME   with a rule switched off; tests/sim/mutants.h names them\n"
    "  --expect found  end well if, and only if, a violation is found\n"
    "\n"
    "FFDL_LOG=info writes what the workers log, each line with its time and its worker.\n";

struct Command {
  std::string program;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> first;
  uint64_t seeds = 1000;
  uint64_t seconds = 3600;
  uint64_t jobs = 1;
  uint64_t epochs = 0;
  MutantName mutant = kMutants[0];
  Of of = Of::kMembership;
  bool has_all_trouble = false;
  bool expect_found = false;

  Schedule schedule(uint64_t of_seed) const {
    return {of_seed, mutant.mutant, of, epochs, has_all_trouble};
  }
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool take(Command& command, std::string_view name, std::string_view text) {
  const auto value = number(text);
  if (name == "--seed") command.seed = value;
  if (name == "--first") command.first = value;
  if (name == "--seeds") command.seeds = value.value_or(0);
  if (name == "--seconds") command.seconds = value.value_or(0);
  if (name == "--jobs") command.jobs = value.value_or(0);
  if (name == "--epochs") command.epochs = value.value_or(0);
  for (const char* one : {"--seed", "--first", "--seeds", "--seconds", "--epochs"}) {
    if (name == one) return value.has_value();
  }
  if (name == "--jobs") return command.jobs >= 1 && command.jobs <= kJobsMax;
  if (name == "--trouble" && text == "all") return command.has_all_trouble = true;
  if (name == "--expect" && text == "found") return command.expect_found = true;
  if (name == "--of" && (text == "session" || text == "ledger")) {
    command.of = text == "session" ? Of::kSession : Of::kLedger;
    return true;
  }
  if (name != "--mutant") return false;
  for (const MutantName& mutant : kMutants) {
    if (mutant.name != text) continue;
    command.mutant = mutant;
    return true;
  }
  return false;
}

std::string repeat(const Command& command, uint64_t seed) {
  std::string text = fmt::format("{} --seed {}", command.program, seed);
  if (command.mutant.mutant != Mutant::kNone)
    text += fmt::format(" --mutant {}", command.mutant.name);
  if (command.of != Of::kMembership) {
    text += command.of == Of::kSession ? " --of session" : " --of ledger";
  }
  if (command.has_all_trouble) text += " --trouble all";
  if (command.epochs > 0) text += fmt::format(" --epochs {}", command.epochs);
  return text;
}

bool run_one(const Command& command) {
  Stacks stacks;
  const auto simulated = [&] { return simulate(command.schedule(*command.seed), stacks); };
  const Outcome first = simulated();
  const Outcome again = simulated();
  fmt::print("seed {}: schedule {:016x}, {} switches, {} steps, {} generations, {} lineages\n",
             *command.seed, first.schedule_hash, first.switches, first.stable_steps,
             first.generations, first.lineages);
  if (!first.violation.empty()) fmt::print("{}\n", first.violation);
  if (first.schedule_hash != again.schedule_hash) {
    fmt::print("the second time it was schedule {:016x}: something is not decided by the seed\n",
               again.schedule_hash);
    return false;
  }
  return first.violation.empty() != command.expect_found;
}

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// State shared by all processes of a search.
struct Board {
  struct Part {
    uint64_t schedules = 0;
    uint64_t switches = 0;
    uint64_t steps = 0;
    uint64_t generations = 0;
    uint64_t lineages = 0;
    uint64_t checkpoints = 0;
    Duration longest_stall{};
    Duration longest_member_stall{};
  };
  std::array<Part, kJobsMax> parts;
  std::atomic<bool> found;
};

// Searches every `jobs`-th seed, beginning with number `job`.
void search(const Command& command, uint64_t start, uint64_t job, Board& board) {
  const auto began = std::chrono::steady_clock::now();
  Stacks stacks;
  Board::Part& part = board.parts[job];
  for (uint64_t i = job; i < command.seeds; i += command.jobs) {
    // Relaxed: no other data depends on the flag.
    if (board.found.load(std::memory_order_relaxed)) return;
    if (seconds_since(began) >= static_cast<double>(command.seconds)) return;
    const Outcome outcome = simulate(command.schedule(start + i), stacks);
    ++part.schedules;
    part.switches += outcome.switches;
    part.steps += outcome.stable_steps;
    part.generations += outcome.generations;
    part.lineages += outcome.lineages;
    part.checkpoints += outcome.checkpoints;
    part.longest_stall = std::max(part.longest_stall, outcome.longest_stall);
    part.longest_member_stall = std::max(part.longest_member_stall, outcome.longest_member_stall);
    if (outcome.violation.empty()) continue;
    fmt::print("{}\nrepeat: {}\n", outcome.violation, repeat(command, start + i));
    board.found.store(true, std::memory_order_relaxed);
  }
}

// Returns false if one of the processes did not reach its end.
bool search_in_processes(const Command& command, uint64_t start, Board& board) {
  std::vector<pid_t> children;
  for (uint64_t job = 1; job < command.jobs; ++job) {
    const pid_t child = testing::fork_child();
    if (child == 0) {
      search(command, start, job, board);
      std::fflush(stdout);
      _exit(0);
    }
    children.push_back(child);
  }
  search(command, start, 0, board);
  bool all_ended = true;
  for (const pid_t child : children) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) all_ended = false;
  }
  return all_ended;
}

// Returns the seed that the gate derives from the files, otherwise a fresh one.
uint64_t first_seed() {
  std::random_device device;
  const char* const given = std::getenv("FFDL_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : uint64_t{device()} << 31 | device();
  return seed % 1'000'000'000'000;
}

bool run_many(const Command& command) {
  const uint64_t start = command.first.value_or(first_seed());
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return false;
  Board& board = *new (shared) Board();
  const auto began = std::chrono::steady_clock::now();
  const bool all_ended = search_in_processes(command, start, board);
  Board::Part sum;
  for (const Board::Part& part : board.parts) {
    sum.schedules += part.schedules;
    sum.switches += part.switches;
    sum.steps += part.steps;
    sum.generations += part.generations;
    sum.lineages += part.lineages;
    sum.checkpoints += part.checkpoints;
    sum.longest_stall = std::max(sum.longest_stall, part.longest_stall);
    sum.longest_member_stall = std::max(sum.longest_member_stall, part.longest_member_stall);
  }
  fmt::print(
      "{}: {} schedules from seed {} in {:.1f} s: {} steps in {} generations, {} lineages, "
      "{} checkpoints, {} switches, longest stall {} ms, of a healthy member {} ms\n",
      command.mutant.name, sum.schedules, start, seconds_since(began), sum.steps, sum.generations,
      sum.lineages, sum.checkpoints, sum.switches,
      sum.longest_stall / std::chrono::milliseconds(1),
      sum.longest_member_stall / std::chrono::milliseconds(1));
  if (!all_ended) fmt::print("one of {} processes did not get to its end\n", command.jobs);
  return all_ended && board.found.load(std::memory_order_relaxed) == command.expect_found;
}

}  // namespace
}  // namespace ffdl::sim

int main(int argc, char** argv) {
  using namespace ffdl::sim;
  Command command;
  command.program = argv[0];
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && take(command, argv[i], argv[i + 1])) continue;
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  const bool is_logged = command.seed && std::getenv("FFDL_LOG") != nullptr;
  ffdl::set_log_sink([is_logged](ffdl::LogLevel, std::string_view line) {
    if (is_logged) fmt::print("{} | {}\n", SimRuntime::whereabouts(), line);
  });
  const bool as_expected = command.seed ? run_one(command) : run_many(command);
  return as_expected ? 0 : 1;
}
