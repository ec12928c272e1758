#pragma once

#include <functional>
#include <string_view>

#include "ffdl/status.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::store {

// Expects that the call fails with that code and text. Its time is short. On a busy machine it may
// be over before the first attempt, so the call is repeated until it says so.
inline void expect_call_fails(const std::function<Status()>& call, StatusCode code,
                              std::string_view text) {
  Status failure;
  static_cast<void>(comes_true([&] {
    failure = call();
    return failure.message().find(text) != std::string_view::npos;
  }));
  EXPECT_FAILS(failure, code, text);
}

}  // namespace ffdl::store
