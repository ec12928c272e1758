// Runs simulations of membership, each from a seed of its own.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "ffdl/log.h"
#include "sim/cluster.h"

namespace ffdl::sim {
namespace {

constexpr std::string_view kUsage =
    "usage: sim_main [--seed N | --seeds N [--seconds S] [--first N]] [--mutant NAME] [--expect "
    "found]\n"
    "\n"
    "  --seed N        this schedule alone, twice: it must be the same both times\n"
    "  --seeds N       so many schedules, or fewer if the time is over\n"
    "  --seconds S     for so long at most\n"
    "  --first N       their seeds from here on; otherwise fresh ones\n"
    "  --mutant NAME   with a rule switched off; tests/sim/mutants.h names them\n"
    "  --expect found  end well if, and only if, a violation is found\n";

struct Command {
  std::string program;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> first;
  uint64_t seeds = 1000;
  uint64_t seconds = 3600;
  MutantName mutant = kMutants[0];
  bool expect_found = false;
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
  if (name == "--seed" || name == "--first" || name == "--seeds" || name == "--seconds") {
    return value.has_value();
  }
  if (name == "--expect" && text == "found") return command.expect_found = true;
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
  return text;
}

bool run_one(const Command& command, Stacks& stacks) {
  const Outcome first = simulate(*command.seed, command.mutant.mutant, stacks);
  const Outcome again = simulate(*command.seed, command.mutant.mutant, stacks);
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

bool run_many(const Command& command, Stacks& stacks) {
  std::random_device device;
  const uint64_t start =
      command.first.value_or((uint64_t{device()} << 31 | device()) % 1'000'000'000'000);
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  uint64_t done = 0;
  Outcome sum;
  bool found = false;
  while (done < command.seeds && elapsed() < static_cast<double>(command.seconds) && !found) {
    const uint64_t seed = start + done++;
    const Outcome outcome = simulate(seed, command.mutant.mutant, stacks);
    sum.switches += outcome.switches;
    sum.stable_steps += outcome.stable_steps;
    sum.generations += outcome.generations;
    sum.lineages += outcome.lineages;
    if (outcome.violation.empty()) continue;
    found = true;
    fmt::print("{}\nrepeat: {}\n", outcome.violation, repeat(command, seed));
  }
  fmt::print(
      "{}: {} schedules from seed {} in {:.1f} s: {} steps in {} generations, {} lineages, "
      "{} switches\n",
      command.mutant.name, done, start, elapsed(), sum.stable_steps, sum.generations, sum.lineages,
      sum.switches);
  return found == command.expect_found;
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
  ffdl::set_log_sink([](ffdl::LogLevel, std::string_view) {});
  Stacks stacks;
  const bool as_expected = command.seed ? run_one(command, stacks) : run_many(command, stacks);
  return as_expected ? 0 : 1;
}
