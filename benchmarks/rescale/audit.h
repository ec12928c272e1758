#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/status.h"

// Checks the records of a job's samples. Pure.
namespace ffdl::bench {

struct AuditResult {
  uint64_t steps = 0;
  uint64_t steps_lost = 0;        // steps below the last one that any member recorded
  uint64_t samples_lost = 0;      // positions of a partition below others that were used
  uint64_t samples_repeated = 0;  // positions that were used twice
};

// Positions of a partition grow from epoch to epoch (SampleRange).
// One text per member, a line per stable step: "STEP PARTITION BEGIN END PARTITION BEGIN END ...".
// A line without an end, of a member that was killed, does not count.
// Errors: kInternal if two members record one step differently.
Result<AuditResult> check_audit(const std::vector<std::string>& texts);

}  // namespace ffdl::bench
