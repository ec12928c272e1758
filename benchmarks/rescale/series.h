#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/training.h"

namespace ffdl::bench {

// A job with one worker, which a second worker joins and leaves again.
struct Series {
  StartWorker start_worker = {};
  PauseRule rule = {};
  int samples = 15;
};

// The pauses of the worker that stays.
struct Cycle {
  Pause out;
  Pause calm;  // between the two, without an event
  Pause back;
};

// Measures rows from a series of cycles of one job: a cycle gives one sample of each of the
// `values`, in milliseconds. Adds the members' records of their samples to `audits`.
void series_rows(Suite& suite, const Series& series, End end, std::vector<ValueSpec> rows,
                 const std::function<std::vector<double>(const Cycle&)>& values,
                 AuditResult& audits);

// Returns a row of milliseconds, with a target that is met from below.
ValueSpec pause_row(std::string name, std::optional<double> target_ms, std::string note);

}  // namespace ffdl::bench
