#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "ffdl/store.h"
#include "ffdl/supervisor.h"

namespace ffdl::cli {

// A job that runs, named on the command line.
struct JobArguments {
  std::string job{};
  std::string store{};
  std::string store_secret{};
};

void add_job_arguments(CLI::App& command, JobArguments& to);
// What becomes of a request while another is carried out.
void add_during_change(CLI::App& command, DuringChange& to);

// The job's store. Errors: kNotFound (it is not known where it is), and those of open_store.
Result<std::unique_ptr<Store>> open_job_store(const JobArguments& arguments);

}  // namespace ffdl::cli
