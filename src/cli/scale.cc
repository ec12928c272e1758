#include "cli/scale.h"

#include <memory>

#include "cli/job_store.h"
#include "cli/within.h"
#include "ffdl/launch/running_job.h"

namespace ffdl::cli {
namespace {

struct ScaleArguments {
  JobArguments job;
  int workers = 0;
  DuringChange during = DuringChange::kMerge;
};

Status run_scale(const ScaleArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_job_store(arguments.job));
  return scale_job(*store, arguments.job.job, arguments.workers, arguments.during);
}

}  // namespace

void add_scale_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<ScaleArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand("scale", "Change the number of workers of a running job");
  add_job_arguments(*command, arguments->job);
  command->add_option("workers", arguments->workers, "New number of workers of the job")
      ->check(within(0, kCountMax))
      ->required();
  add_during_change(*command, arguments->during);
  command->footer(
      "To shrink a job, this command asks the workers with the largest numbers to end. A worker\n"
      "that has replaced worker N by 'ffdl migrate' counts as worker N. This command returns\n"
      "before the change is complete. If another 'ffdl scale' follows before its end, the number\n"
      "of workers of the later command applies.\n\n"
      "Examples:\n  ffdl scale digits 2\n  ffdl scale digits 8 --store etcd://10.0.0.2:2379");
  command->callback([arguments, &outcome] { outcome = run_scale(*arguments); });
}

}  // namespace ffdl::cli
