#include "cli/migrate.h"

#include <fmt/core.h>

#include <memory>
#include <optional>

#include "cli/job_store.h"
#include "cli/print.h"
#include "cli/within.h"
#include "ffdl/launch/running_job.h"

namespace ffdl::cli {
namespace {

struct MigrateArguments {
  JobArguments job;
  int from = 0;
  std::optional<int> to;
  DuringChange during = DuringChange::kMerge;
};

Status run_migrate(const MigrateArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_job_store(arguments.job));
  FFDL_ASSIGN_OR_RETURN(const int to, migrate_worker(*store, arguments.job.job, arguments.from,
                                                     arguments.to, arguments.during));
  print("requested: worker-{} replaces worker-{}\n", to, arguments.from);
  return {};
}

}  // namespace

void add_migrate_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<MigrateArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("migrate", "Replace a worker of a running job by an idle worker");
  add_job_arguments(*command, arguments->job);
  command->add_option("from", arguments->from, "Number of the worker to replace")
      ->check(within(0, kCountMax))
      ->required();
  command
      ->add_option(
          "to", arguments->to,
          "Number of the idle worker to use (default: the idle worker with the smallest number)")
      ->check(within(0, kCountMax));
  add_during_change(*command, arguments->during);
  command->footer(
      "The replaced worker trains until the idle worker is ready. Then the idle worker takes the\n"
      "replaced worker's place, and the number of training workers stays the same.\n"
      "A job has idle workers if fewer workers than the MAX of --workers MIN:MAX are wanted.\n"
      "This command returns before the change is complete; 'ffdl status' shows the progress of\n"
      "the change.\n\n"
      "Examples:\n  ffdl migrate digits 1\n"
      "  ffdl migrate digits 0 5 --store etcd://10.0.0.2:2379");
  command->callback([arguments, &outcome] { outcome = run_migrate(*arguments); });
}

}  // namespace ffdl::cli
