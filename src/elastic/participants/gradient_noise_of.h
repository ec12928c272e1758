#pragma once

#include <memory>

#include "ffdl/tuning/gradient_noise.h"

namespace ffdl::base {
class DeviceSide;
}

namespace ffdl::elastic {

// Creates the participant for gradients on the GPUs of `devices`, another machine's in tests, which
// must outlive it. Null: those of this machine. Errors: those of GradientNoise::create().
Result<std::unique_ptr<GradientNoise>> gradient_noise_of(const GradientNoiseOptions& options,
                                                         base::DeviceSide* devices);

}  // namespace ffdl::elastic
