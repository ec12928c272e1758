#include "cli/stats.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/print.h"
#include "ffdl/ps/parameter_server.h"

namespace ffdl::cli {
namespace {

struct StatsOptions {
  std::string name;
  bool json = false;
};

void print_json(const ParameterServerStats& stats) {
  auto learners = nlohmann::json::array();
  for (const LearnerProgress& learner : stats.learners) {
    learners.push_back({{"slot", learner.slot},
                        {"attached", learner.attached},
                        {"pid", learner.pid},
                        {"incarnation", learner.incarnation},
                        {"published", learner.published},
                        {"folded", learner.folded},
                        {"mini_batches", learner.mini_batches},
                        {"skipped", learner.skipped},
                        {"samples", learner.samples}});
  }
  auto partitions = nlohmann::json::array();
  for (const PartitionProgress& partition : stats.partitions) {
    partitions.push_back({{"committed", partition.committed},
                          {"samples", partition.samples},
                          {"repeated", partition.repeated},
                          {"missing", partition.missing}});
  }
  const MemoryPlacement& memory = stats.memory;
  const nlohmann::json all = {{"version", stats.version},
                              {"epoch", stats.epoch},
                              {"server_alive", stats.server_alive},
                              {"server_pid", stats.server_pid},
                              {"recoveries", stats.recoveries},
                              {"learners_reclaimed", stats.learners_reclaimed},
                              {"learners", learners},
                              {"partitions", partitions},
                              {"staleness", stats.staleness},
                              {"memory",
                               {{"shard_nodes", memory.shard_nodes},
                                {"bound", memory.bound},
                                {"note", memory.note},
                                {"huge_page_bytes", memory.huge_page_bytes},
                                {"huge_page_note", memory.huge_page_note}}}};
  print_document(all.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_staleness(const ParameterServerStats& stats) {
  uint64_t total = 0;
  for (const uint64_t count : stats.staleness) total += count;
  if (total == 0) return;
  print("\nstaleness (other gradients folded since the pull)\n");
  for (size_t bucket = 0; bucket < stats.staleness.size(); ++bucket) {
    const uint64_t count = stats.staleness[bucket];
    if (count == 0) continue;
    const uint64_t from = bucket == 0 ? 0 : uint64_t{1} << (bucket - 1);
    print("  {:>10} or more {:>12}  {:5.1f} %\n", from, count,
          100 * static_cast<double>(count) / static_cast<double>(total));
  }
}

void print_table(const std::string& name, const ParameterServerStats& stats) {
  PartitionProgress sum;
  for (const PartitionProgress& partition : stats.partitions) {
    sum.samples += partition.samples;
    sum.repeated += partition.repeated;
    sum.missing += partition.missing;
  }
  print("parameter server '{}': {}, pid {}, epoch {}, version {}\n", name,
        stats.server_alive ? "alive" : "dead", stats.server_pid, stats.epoch, stats.version);
  print(
      "samples committed {}, repeated {}, missing {}; folds finished by a successor {}, "
      "learners reclaimed {}\n\n",
      sum.samples, sum.repeated, sum.missing, stats.recoveries, stats.learners_reclaimed);
  print("{:>4} {:>9} {:>9} {:>11} {:>12} {:>12} {:>12} {:>9}\n", "slot", "attached", "pid",
        "incarnation", "published", "folded", "mini-batches", "skipped");
  for (const LearnerProgress& learner : stats.learners) {
    print("{:>4} {:>9} {:>9} {:>11} {:>12} {:>12} {:>12} {:>9}\n", learner.slot,
          learner.attached ? "yes" : "no", learner.pid, learner.incarnation, learner.published,
          learner.folded, learner.mini_batches, learner.skipped);
  }
  print_staleness(stats);
  print("\nNUMA node of each shard: {}{}\n", fmt::join(stats.memory.shard_nodes, " "),
        stats.memory.note.empty() ? "" : " (" + stats.memory.note + ")");
  print("in huge pages: {:.1f} MiB{}\n",
        static_cast<double>(stats.memory.huge_page_bytes) / (1 << 20),
        stats.memory.huge_page_note.empty() ? "" : " (" + stats.memory.huge_page_note + ")");
}

Status run_stats(const StatsOptions& options) {
  FFDL_ASSIGN_OR_RETURN(const auto view,
                        ParameterServerView::open(options.name, std::chrono::steady_clock::now()));
  options.json ? print_json(view->stats()) : print_table(options.name, view->stats());
  return {};
}

}  // namespace

void add_stats_command(CLI::App& app, Status& outcome) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* stats = app.add_subcommand(
      "stats",
      "Show the statistics of a parameter server on this host, and the NUMA nodes of its memory");
  stats->add_option("name", options->name, "Name of the server, as 'ffdl doctor -n' lists it")
      ->required();
  stats->add_flag("--json", options->json, "Print JSON");
  stats->footer(
      "This command only reads the server's segment, and does not disturb training.\n\n"
      "Examples:\n  ffdl stats digits\n  ffdl stats digits --json | jq .version\n"
      "  watch -n1 ffdl stats digits");
  stats->callback([options, &outcome] { outcome = run_stats(*options); });
}

}  // namespace ffdl::cli
