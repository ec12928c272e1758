#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ffdl/store.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::testing {

// Opens a store that waits for a call only a short time. A busy machine may need several attempts.
// Returns null if none succeeds within a minute.
inline std::unique_ptr<Store> open_hurried(const std::string& url, Duration operation_timeout) {
  Result<std::unique_ptr<Store>> store = Status(StatusCode::kUnavailable, "not tried yet");
  EXPECT_TRUE(comes_true([&] {
    store = open_store(url, system_runtime(), {.operation_timeout = operation_timeout});
    return store.ok();
  })) << store.status().to_string();
  return store.ok() ? std::move(store).value() : nullptr;
}

}  // namespace ffdl::testing
