#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "ffdl/launch/running_job.h"
#include "ffdl/store.h"

namespace ffdl::cli {

// A running job, named on the command line.
struct JobArguments {
  std::string job{};
  std::string store{};
  std::string store_secret{};
};

void add_job_arguments(CLI::App& command, JobArguments& to);
// Adds the option for a request during another change.
void add_during_change(CLI::App& command, DuringChange& to);

// Opens the job's store. Errors: kNotFound (its address is not known), and those of open_store.
Result<std::unique_ptr<Store>> open_job_store(const JobArguments& arguments);

}  // namespace ffdl::cli
