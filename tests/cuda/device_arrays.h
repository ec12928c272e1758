#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/device.h"
#include "support/status_matchers.h"

// Skips a test, with the reason, if this machine has no usable GPU. Used at the beginning of a
// test.
#define FFDL_SKIP_WITHOUT_GPU()                                                  \
  if (const auto ffdl_device = ::ffdl::base::find_device(); !ffdl_device.ok()) { \
    ASSERT_EQ(ffdl_device.status().code(), ::ffdl::StatusCode::kUnimplemented)   \
        << ffdl_device.status().to_string();                                     \
    GTEST_SKIP() << ffdl_device.status().to_string();                            \
  }

namespace ffdl::testing {

// Copies `bytes` of the host's memory to new memory of the GPU. Waits for the copy: `from` may be
// freed afterwards, and any stream sees the result.
inline Result<base::DeviceMemory> on_device(const void* from, uint64_t bytes) {
  FFDL_ASSIGN_OR_RETURN(base::DeviceMemory memory, base::allocate_on_device(bytes));
  FFDL_RETURN_IF_ERROR(base::copy_on_device(memory.get(), from, bytes, nullptr));
  FFDL_RETURN_IF_ERROR(base::wait_for_device(nullptr));
  return memory;
}

inline Status to_host(void* to, const void* from, uint64_t bytes) {
  FFDL_RETURN_IF_ERROR(base::copy_on_device(to, from, bytes, nullptr));
  return base::wait_for_device(nullptr);
}

}  // namespace ffdl::testing
