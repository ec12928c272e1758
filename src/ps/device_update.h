#pragma once

#include "ffdl/device_update.h"

// update_on_device() is the twin of update_kernels.h. What dies with the process is a GPU's memory
// as a whole, so it works in place: what a successor needs is elsewhere. cuda/ defines it; in a
// build without CUDA cuda/no_cuda.cc does.
namespace ffdl::ps {

// What it asks of what it is given. Pure.
Status check_update(const UpdateRuleOptions& options, const UpdateStep& step,
                    const DeviceUpdate& update);

}  // namespace ffdl::ps
