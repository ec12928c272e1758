#include "cli/job_store.h"

#include "cli/job_folder.h"

namespace ffdl::cli {

void add_job_arguments(CLI::App& command, JobArguments& to) {
  command.add_option("job", to.job, "The job's name, as 'ffdl run' says it")->required();
  command.add_option("--store", to.store,
                     "URL of its store (default: that of a job which runs on this host)");
  command
      .add_option("--store-secret", to.store_secret, "Secret of the store; better by the variable")
      ->envname("FFDL_STORE_SECRET");
}

void add_during_change(CLI::App& command, DuringChange& to) {
  command.add_flag_callback(
      "--if-settled", [&to] { to = DuringChange::kRefuse; },
      "Only where no other change is under way; otherwise fail, and change nothing");
}

Result<std::unique_ptr<Store>> open_job_store(const JobArguments& arguments) {
  std::string url = arguments.store;
  if (url.empty()) {
    FFDL_ASSIGN_OR_RETURN(url, store_url_of(arguments.job));
  }
  return open_store(url, system_runtime(), {.secret = arguments.store_secret});
}

}  // namespace ffdl::cli
