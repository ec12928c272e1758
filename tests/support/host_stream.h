#pragma once

#include <functional>

namespace ffdl::testing {

// The object behind a DeviceStream of HostDevice. Virtual, so that a loaded library can give it
// work.
class HostStream {
 public:
  virtual ~HostStream() = default;
  virtual void enqueue(std::function<void()> work) = 0;
};

}  // namespace ffdl::testing
