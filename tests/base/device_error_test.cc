#include "base/device_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

TEST(DeviceError, SaysWhatIsMissingAndWhatToDo) {
  struct Case {
    DeviceFailure failure;
    StatusCode code;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{.error = 35, .driver_missing = "libcuda.so.1: cannot open shared object file"},
       StatusCode::kUnimplemented,
       "was not loaded from LD_LIBRARY_PATH or /etc/ld.so.cache: libcuda.so.1: cannot open shared "
       "object file; "
       "install NVIDIA's driver"},
      {{.error = 34, .driver_missing = "libcuda.so.1: no"},
       StatusCode::kUnimplemented,
       "libcuda.so.1: no; install"},
      {{.error = 35, .driver_version = 12040, .runtime_version = 13000},
       StatusCode::kUnimplemented,
       "the driver supports CUDA 12.4, this build needs 13.0; install a newer driver"},
      {{.error = 100}, StatusCode::kUnimplemented, "CUDA_VISIBLE_DEVICES"},
      {{.error = 209}, StatusCode::kUnimplemented, "CMAKE_CUDA_ARCHITECTURES"},
      {{.error = 2}, StatusCode::kExhausted, "the GPU's memory is full"},
      {{.error = 46}, StatusCode::kUnavailable, "try again later"},
      {{.error = 700, .name = "cudaErrorIllegalAddress", .text = "an illegal access"},
       StatusCode::kInternal,
       "cudaErrorIllegalAddress (700): an illegal access"},
  };
  for (const Case& c : cases) {
    const Status status = device_error("find the GPU", c.failure);
    EXPECT_FAILS(status, c.code, c.part);
    EXPECT_EQ(status.message().find("find the GPU: "), 0U);
  }
}

}  // namespace
}  // namespace ffdl::base
