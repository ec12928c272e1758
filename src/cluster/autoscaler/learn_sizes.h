#pragma once

#include <span>
#include <vector>

#include "ffdl/cluster/autoscaler.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {

// Corrects the value of each size by the measured speeds of a job. Measured sizes get their
// measured values, relative to each other. The others get the stated value times a power of the
// number of workers. The power is by how much statement and measurement differ: a straight line
// through the logarithms, held flat by a prior. So one measured size alone changes no other, and
// two change all others. A size far from the measured ones keeps a large uncertainty. For a size
// with a batch only steps of that batch count. If a size is listed several times, with other
// placements, all are corrected alike.
std::vector<SizeOption> learn_sizes(std::vector<SizeOption> sizes,
                                    std::span<const StepMeasurement> speeds);

}  // namespace ffdl::cluster
