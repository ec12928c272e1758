#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ffdl/runtime.h"

namespace ffdl::testing {

// The runtime of a machine that can be suspended.
class SuspendedMachine final : public Runtime {
 public:
  // Lets the machine have been suspended for so long.
  void suspend(Duration time) { suspended_ += time.count(); }

  Time now() override { return system_runtime().now(); }
  Time boottime() override { return system_runtime().boottime() + Duration(suspended_); }
  uint64_t random() override { return system_runtime().random(); }
  std::unique_ptr<Event> make_event() override { return system_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) override {
    return system_runtime().spawn(std::move(name), std::move(body));
  }

 private:
  std::atomic<int64_t> suspended_ = 0;
};

}  // namespace ffdl::testing
