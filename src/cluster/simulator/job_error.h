#pragma once

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "cluster/simulator/workload.h"

namespace ffdl::cluster {

// Returns an error in a job of a workload, with the place it was read from. `column` is a column of
// the job's source.
template <class... Args>
Status job_error(const WorkloadJob& job, size_t column, fmt::format_string<Args...> wrong,
                 Args&&... args) {
  const std::string told = fmt::format(wrong, std::forward<Args>(args)...);
  const WorkloadSource& source = job.source;
  if (source.line == 0) return base::invalid_argument("simulate job '{}': {}", job.name, told);
  return base::invalid_argument("read '{}': line {}, column {}: job '{}': {}", source.file,
                                source.line, std::max<size_t>(column, 1), job.name, told);
}

}  // namespace ffdl::cluster
