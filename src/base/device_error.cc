#include "base/device_error.h"

#include "base/errors.h"

namespace ffdl::base {
namespace {

// Values of cudaError_t, which CUDA keeps stable. They are repeated here so that builds without
// CUDA test this too.
constexpr int kMemoryAllocation = 2;
constexpr int kStubLibrary = 34;
constexpr int kInsufficientDriver = 35;
constexpr int kDevicesUnavailable = 46;
constexpr int kNoDevice = 100;
constexpr int kNoKernelImageForDevice = 209;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Status device_error(std::string_view doing, const DeviceFailure& failure) {
  switch (failure.error) {
    case kInsufficientDriver:
    case kStubLibrary:
      if (!failure.driver_missing.empty()) {
        return make_error(StatusCode::kUnimplemented,
                          "{}: the driver's library was not loaded from LD_LIBRARY_PATH or "
                          "/etc/ld.so.cache: {}; install NVIDIA's driver, "
                          "or give the container its GPUs",
                          doing, failure.driver_missing);
      }
      return make_error(StatusCode::kUnimplemented,
                        "{}: the driver supports CUDA {}, this build needs {}; install a newer "
                        "driver, or build ffdl with an older CUDA",
                        doing, version_text(failure.driver_version),
                        version_text(failure.runtime_version));
    case kNoDevice:
      return make_error(StatusCode::kUnimplemented,
                        "{}: the driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES",
                        doing);
    case kNoKernelImageForDevice:
      return make_error(StatusCode::kUnimplemented,
                        "{}: this build has no kernels for this kind of GPU; build ffdl with "
                        "-DCMAKE_CUDA_ARCHITECTURES=native on a machine that has one",
                        doing);
    case kMemoryAllocation:
      return make_error(StatusCode::kExhausted,
                        "{}: the GPU's memory is full; free some of it, see nvidia-smi", doing);
    case kDevicesUnavailable:
      return make_error(
          StatusCode::kUnavailable,
          "{}: the GPU is busy, or another process uses it exclusively; try again later", doing);
    default:
      return make_error(StatusCode::kInternal,
                        "{}: {} ({}): {}; check the log of the driver (dmesg)", doing, failure.name,
                        failure.error, failure.text);
  }
}

}  // namespace ffdl::base
