#include "cli/job_store.h"

#include <utility>

#include "cli/job_folder.h"

namespace ffdl::cli {

void add_job_arguments(CLI::App& command, JobArguments& to) {
  command.add_option("job", to.job, "Name of the job, as 'ffdl run' prints it")->required();
  command.add_option("--store", to.store,
                     "URL of the job's store (default: read from the job's folder on this host)");
  command
      .add_option("--store-secret", to.store_secret,
                  "Secret of the store (default: read from the job's folder on this host); prefer "
                  "the variable FFDL_STORE_SECRET, because other users can see this option")
      ->envname("FFDL_STORE_SECRET");
}

void add_during_change(CLI::App& command, DuringChange& to) {
  command.add_flag_callback(
      "--if-settled", [&to] { to = DuringChange::kRefuse; },
      "If another change of the job's workers is in progress, fail and change nothing (default: "
      "combine both changes)");
}

Result<std::unique_ptr<Store>> open_job_store(const JobArguments& arguments) {
  std::string url = arguments.store;
  std::string secret = arguments.store_secret;
  if (url.empty()) {
    FFDL_ASSIGN_OR_RETURN(url, store_url_of(arguments.job));
    FFDL_ASSIGN_OR_RETURN(std::string own, store_secret_of(arguments.job));
    if (!own.empty()) secret = std::move(own);
  }
  return open_store(url, system_runtime(), {.secret = secret});
}

}  // namespace ffdl::cli
