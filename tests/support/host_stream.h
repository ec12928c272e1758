#pragma once

#include <functional>

namespace ffdl::testing {

// What a DeviceStream of HostDevice points to. Virtual, so that a library that is loaded can give
// it work.
class HostStream {
 public:
  virtual ~HostStream() = default;
  virtual void enqueue(std::function<void()> work) = 0;
};

}  // namespace ffdl::testing
