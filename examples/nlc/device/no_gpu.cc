#include "nlc/device/gpu.h"

// Replaces gpu.cc and kernels.cu if FFDL_WITH_CUDA is off.
namespace nlc {

ffdl::Result<std::unique_ptr<Gpu>> open_gpu() {
  return ffdl::Status(ffdl::StatusCode::kUnimplemented,
                      "find the GPU: this build has no CUDA; build ffdl with -DFFDL_WITH_CUDA=ON, "
                      "which needs nvcc 12.8 or later, or train with --device cpu");
}

}  // namespace nlc
