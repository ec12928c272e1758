#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/runtime.h"

namespace ffdl::testing {

// The runtime of this machine. Tests override its clock.
class ForwardingRuntime : public Runtime {
 public:
  Time now() override { return system_runtime().now(); }
  std::string process_mark() override { return system_runtime().process_mark(); }
  bool has_ended(std::string_view process_mark) override {
    return system_runtime().has_ended(process_mark);
  }
  uint64_t random() override { return system_runtime().random(); }
  std::unique_ptr<Event> make_event() override { return system_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) override {
    return system_runtime().spawn(std::move(name), std::move(body));
  }
};

}  // namespace ffdl::testing
