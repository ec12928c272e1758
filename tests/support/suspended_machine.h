#pragma once

#include <atomic>
#include <cstdint>

#include "support/forwarding_runtime.h"

namespace ffdl::testing {

// The runtime of a machine that can be suspended.
class SuspendedMachine final : public ForwardingRuntime {
 public:
  // Lets the machine have been suspended for so long.
  void suspend(Duration time) { suspended_ += time.count(); }

  Time boottime() override { return system_runtime().boottime() + Duration(suspended_); }

 private:
  std::atomic<int64_t> suspended_ = 0;
};

}  // namespace ffdl::testing
