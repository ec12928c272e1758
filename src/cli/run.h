#pragma once

#include <CLI/App.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/run_arguments.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "launch/supervisor.h"

namespace ffdl::cli {

// Makes an object that works beside a job's supervisor, on this process's own thread or task. The
// object is destroyed when the job is over.
using Beside = std::function<Result<std::shared_ptr<void>>(
    Store& store, launch::Supervisor& supervisor, const launch::SupervisorOptions& options)>;

// Adds the program, and the options of `ffdl run` for the number of workers and for places of files
// and stores.
void add_run_options(CLI::App& command, RunArguments& to);
// Runs the job, and the object beside it. `signalled` becomes the first signal that ended it.
Status run_job(const RunArguments& arguments, const Beside& beside, std::atomic<int>& signalled);
// Turns an end by a signal into OK, and reports it in `exit_code`.
Status without_signal(const Status& outcome, int signalled, int& exit_code);

// Adds `ffdl run`, which starts the workers of a job on this host, and keeps them running.
// `exit_code` reports how it ended.
void add_run_command(CLI::App& app, Status& outcome, int& exit_code);

}  // namespace ffdl::cli
