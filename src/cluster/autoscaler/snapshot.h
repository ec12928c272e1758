#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/autoscaler/autoscaler_records.h"

namespace ffdl::cluster {

// One job, as the store describes it.
struct JobFacts {
  JobRequest request{};
  Revision place = 0;
  std::optional<JobAllocation> answer{};  // the last one to this request
  int wanted = 0;                         // last request to scale_job(); 0: it does not run yet
  int running = 0;                        // its processes, including those that were asked to end
  bool is_starting = false;               // some wanted workers have not started
  // The job runs without a request: its lease has ended, though the request may come back. It keeps
  // its workers.
  bool is_away = false;
  std::vector<StepMeasurement> speeds{};  // reported by the job

  // Returns the number of workers in its answer; 0: it was not admitted.
  int granted() const { return answer ? answer->workers : 0; }
};

struct Snapshot {
  std::vector<NodeWorkers> nodes{};  // their offers, by name
  std::vector<JobFacts> jobs{};      // ordered by arrival
  std::vector<Answer> answers{};     // all, including those to jobs that are gone
  Revision answered = 0;             // revision of the answers' record; 0: there is none
};

// Reads the store. Records that cannot be read are ignored and logged.
// Errors: those of Store.
Result<Snapshot> take_snapshot(Store& store);

}  // namespace ffdl::cluster
