#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/rescale/training.h"

namespace ffdl::bench {

// A job whose only worker is joined by another, which goes again.
struct Series {
  StartWorker start_worker = {};
  PauseRule rule = {};
  int samples = 15;
};

// The pauses of the worker that stays.
struct Cycle {
  Pause out;
  Pause calm;  // between the two, for nothing
  Pause back;
};

// Measures rows whose samples are the `values` of one cycle each, of one job, in milliseconds. Adds
// to `audits` what its members wrote down of their samples.
void series_rows(Suite& suite, const Series& series, End end, std::vector<ValueSpec> rows,
                 const std::function<std::vector<double>(const Cycle&)>& values,
                 AuditResult& audits);

// A row of milliseconds, with a target that is met from below.
ValueSpec pause_row(std::string name, std::optional<double> target_ms, std::string note);

}  // namespace ffdl::bench
