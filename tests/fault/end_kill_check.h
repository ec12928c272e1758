#pragma once

#include <string>
#include <vector>

#include "fault/end_kill_job.h"
#include "ffdl/membership.h"

namespace ffdl::end_kill {

// A process that has ended.
struct EndedLife {
  std::string id{};
  int pid = 0;
  int wait_status = 0;  // status of waitpid()
  bool was_killed = false;
  bool may_be_cancelled = false;  // it was stopped, or could not reach its store
  bool was_asked_to_leave = false;
  bool is_late = false;
  uint64_t incarnation = 0;
  Duration trained_for{};
  uint64_t applied = 0;
  uint64_t last_step = 0;
  uint64_t last_hash = 0;

  bool has(ExitCode code) const;
};

// The findings in the records of a job beside its problems.
struct JobFindings {
  std::vector<std::string> problems{};
  uint64_t lineages = 0;
  bool was_begun_anew = false;  // began from nothing, with the warning
};

// Returns the job as the last record of its world that a process wrote shows it.
JobStatus last_status(const std::string& folder);

// Checks a job after all its processes have ended. `status` is the store's answer then.
JobFindings check_job(const JobOptions& options, const std::vector<EndedLife>& lives,
                      const JobStatus& status);

}  // namespace ffdl::end_kill
