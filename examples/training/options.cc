#include "training/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "ffdl/version.h"
#include "training/example.h"
#include "training/shares.h"

namespace training {
namespace {

std::string footer(const std::string& name) {
  return fmt::format(R"(examples:
  {0} train                                      two learners and the server
  {0} train --kill                               the same, with a learner and the server killed
  {0} train --learners 4 --synchrony stale --staleness 2
  {0} train --json | tail -n 1                   the summary alone)",
                     name);
}

void add_training_options(const Example& example, CLI::App& app, TrainOptions& options) {
  app.add_option("--data", options.data, example.data_help)->capture_default_str();
  app.add_option("--learners", options.learners, "learner processes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--mini-batch", options.mini_batch, "samples per gradient")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rule", options.rule, "update rule of the weights")
      ->check(CLI::IsMember({"sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate,
                 "first learning rate; a cosine decays it [depends on the rule]")
      ->check(CLI::PositiveNumber);
  app.add_option("--epochs", options.epochs, "number of times that each training sample is used")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the first weights and of the order of samples")
      ->capture_default_str();
  app.add_option("--synchrony", options.synchrony,
                 "async: no learner waits; stale: at most --staleness ahead; bulk: in rounds")
      ->check(CLI::IsMember({"async", "stale", "bulk"}))
      ->capture_default_str();
  app.add_option("--staleness", options.staleness, "mini-batches ahead of the slowest learner")
      ->check(CLI::Range(0U, 1000000U))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  if (!example.find_device) return;
  app.add_option("--device", options.device, "device of the learners: cpu, or cuda for one GPU")
      ->check(CLI::IsMember({kCpu, kCuda}))
      ->capture_default_str();
}

void add_child_options(CLI::App& app, Invocation& invocation) {
  app.group("");  // not for users: hides it from the help
  app.add_option("--segment", invocation.segment)->required();
  app.add_option("--parent", invocation.parent)->required();
  app.add_option("--slot", invocation.slot);
  app.add_flag("--adopt", invocation.adopt);
}

ffdl::Synchrony parse_synchrony(const std::string& name) {
  if (name == "stale") return ffdl::Synchrony::kStale;
  if (name == "bulk") return ffdl::Synchrony::kBulk;
  return ffdl::Synchrony::kAsync;
}

// The parser has accepted only known names.
ffdl::UpdateRuleKind rule_kind(const TrainOptions& options) {
  return ffdl::parse_update_rule(options.rule).value();
}

// Returns the number of updates that the server makes when no gradient is late: the length of the
// decay.
uint64_t planned_updates(const TrainOptions& options, uint64_t train_samples) {
  const auto mini_batch = static_cast<uint64_t>(options.mini_batch);
  const auto learners = static_cast<uint32_t>(options.learners);
  uint64_t sum = 0;
  uint64_t most = 0;
  for (uint32_t partition = 0; partition < learners; ++partition) {
    const Share share{partition, learners, train_samples};
    const uint64_t mini_batches = (share.size() + mini_batch - 1) / mini_batch;
    sum += mini_batches;
    most = std::max(most, mini_batches);
  }
  return static_cast<uint64_t>(options.epochs) * (options.synchrony == "bulk" ? most : sum);
}

}  // namespace

Invocation parse_command_line(const Example& example, int argc, char** argv) {
  Invocation invocation;
  TrainOptions& options = invocation.options;
  options = example.defaults;
  options.out = example.name + "-run";
  CLI::App app(example.description, example.name);
  app.set_version_flag("--version", FFDL_VERSION_STRING);
  app.require_subcommand(1);
  app.footer(footer(example.name));

  CLI::App* train = app.add_subcommand("train", "Train, and watch it.");
  train->footer(footer(example.name));
  add_training_options(example, *train, options);
  train->add_flag("--kill", options.kill,
                  "kill a learner after a third of the run and the server after two thirds");
  train->add_flag("--json", options.json, "write JSON lines, and nothing else, to standard output");
  train->add_option("--out", options.out, "folder for run.jsonl")->capture_default_str();

  CLI::App* server = app.add_subcommand("server");
  CLI::App* learner = app.add_subcommand("learner");
  for (CLI::App* child : {server, learner}) {
    add_training_options(example, *child, options);
    add_child_options(*child, invocation);
  }
  try {
    app.parse(argc, argv);
    if (options.data.empty()) throw CLI::ValidationError("--data is missing", example.data_help);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  if (server->parsed()) invocation.role = Role::kServer;
  if (learner->parsed()) invocation.role = Role::kLearner;
  if (options.learning_rate == 0) {
    options.learning_rate = example.learning_rate(rule_kind(options));
  }
  return invocation;
}

std::vector<std::string> command_line(const Invocation& invocation) {
  const TrainOptions& options = invocation.options;
  std::vector<std::string> line{
      invocation.role == Role::kServer ? "server" : "learner",
      fmt::format("--segment={}", invocation.segment),
      fmt::format("--parent={}", invocation.parent),
      fmt::format("--slot={}", invocation.slot),
      fmt::format("--data={}", options.data),
      fmt::format("--learners={}", options.learners),
      fmt::format("--mini-batch={}", options.mini_batch),
      fmt::format("--rule={}", options.rule),
      fmt::format("--learning-rate={}", options.learning_rate),
      fmt::format("--epochs={}", options.epochs),
      fmt::format("--seed={}", options.seed),
      fmt::format("--synchrony={}", options.synchrony),
      fmt::format("--staleness={}", options.staleness),
      fmt::format("--threads={}", options.threads),
  };
  if (invocation.adopt) line.emplace_back("--adopt");
  if (options.device != kCpu) line.push_back(fmt::format("--device={}", options.device));
  return line;
}

ffdl::ParameterServerOptions server_options(const Invocation& invocation, const Task& task) {
  const TrainOptions& options = invocation.options;
  const Task::Sizes sizes = task.sizes();
  return {.name = invocation.segment,
          .parameters = sizes.parameters,
          .rule = {.kind = rule_kind(options), .learning_rate = options.learning_rate},
          .schedule = {.decay = ffdl::LearningRateSchedule::Decay::kCosine,
                       .decay_steps = planned_updates(options, sizes.train)},
          .synchrony = parse_synchrony(options.synchrony),
          .staleness = options.staleness,
          .threads = options.threads,
          .learners_max = options.learners,
          .rows_max = task.rows_max()};
}

}  // namespace training
