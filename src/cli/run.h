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
#include "ffdl/supervisor.h"

namespace ffdl::cli {

// Makes what works beside a job's supervisor, on this process's own thread or task, until the job
// is over: it is destroyed then.
using Beside = std::function<Result<std::shared_ptr<void>>(Store& store, Supervisor& supervisor,
                                                           const SupervisorOptions& options)>;

// The options of `ffdl run` that say how many workers there are, and where what lies.
void add_run_options(CLI::App& command, RunArguments& to);
// Runs the job, and what stands beside it. `signalled` becomes the first signal that ended it.
Status run_job(const RunArguments& arguments, const Beside& beside, std::atomic<int>& signalled);
// A signal is no failure, but an end that the caller may want to know.
Status without_signal(const Status& outcome, int signalled, int& exit_code);

// `ffdl run`: starts the workers of a job on this host, and keeps them running. `program` is what
// stands after its options, which the others must not look at. `exit_code` says how it ended.
CLI::App* add_run_command(CLI::App& app, const std::vector<std::string>& program, Status& outcome,
                          int& exit_code);

}  // namespace ffdl::cli
