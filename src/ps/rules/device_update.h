#pragma once

#include "ffdl/ps/update_rule.h"

// update_on_device() computes what update_kernels.h computes on the processor. A process's death
// frees the GPU's memory as a whole. So it updates in place: the data for a successor is elsewhere.
// cuda/ defines it; in a build without CUDA, cuda/no_cuda.cc does.
namespace ffdl::ps {

// Checks the arguments of update_on_device(). Pure.
Status check_update(const UpdateRuleOptions& options, const UpdateStep& step,
                    const DeviceUpdate& update);

}  // namespace ffdl::ps
