#pragma once

#include <span>
#include <vector>

#include "ffdl/job_link.h"
#include "ffdl/job_planner.h"

namespace ffdl::jobs {

// What each size is worth by what a job has shown, where it said something else. Sizes that were
// measured are worth what was measured, relative to each other. The others are worth what the job
// said times a power of the number of workers, by which what it said differs from what it showed:
// a straight line through the logarithms, held flat by a prior. So one size alone teaches nothing,
// two teach all others something, and a size far from those that were measured keeps a large
// uncertainty. Of a size that says its batch only steps of that batch count. Where one is listed
// several times, with other demands on nodes, all are corrected alike.
std::vector<SizeOption> learn_sizes(std::vector<SizeOption> sizes,
                                    std::span<const MeasuredSpeed> speeds);

}  // namespace ffdl::jobs
