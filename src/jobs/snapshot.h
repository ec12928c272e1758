#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jobs/records.h"

namespace ffdl::jobs {

// One job as the store shows it.
struct JobFacts {
  JobDemand demand{};
  Revision place = 0;
  std::optional<JobAllocation> answer{};  // the last one to this demand
  int wanted = 0;                         // what scale_job() last said; 0: nobody runs it yet
  int running = 0;                        // its processes, those included that are asked to end
  bool is_starting = false;               // some that are wanted have not begun
  // It runs, and its demand is not there: its lease has ended, though it may come back. It keeps
  // what it has.
  bool is_away = false;
  std::vector<MeasuredSpeed> speeds{};  // as it has reported

  // The workers that it was told it has; 0: it was not let in.
  int granted() const { return answer ? answer->workers : 0; }
};

struct Snapshot {
  std::vector<NodeAllocation> nodes{};  // what they offer, by name
  std::vector<JobFacts> jobs{};         // in order of arrival
  std::vector<Answer> answers{};        // all, those to jobs that are gone included
  Revision answered = 0;                // of that record; 0: there is none
};

// Whatever cannot be read is as if it were not there, and is logged.
// Errors: those of Store.
Result<Snapshot> take_snapshot(Store& store);

}  // namespace ffdl::jobs
