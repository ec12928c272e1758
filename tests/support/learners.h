#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

#include "ffdl/learner.h"
#include "ffdl/parameter_server.h"
#include "support/status_matchers.h"

// A server and its learners in one process.
namespace ffdl::testing {

inline std::unique_ptr<ParameterServer> create_server(const ParameterServerOptions& options) {
  auto created = ParameterServer::create(options);
  EXPECT_OK(created);
  return std::move(created).value();
}

inline std::unique_ptr<Learner> attach(const ParameterServer& server, int slot = kAnySlot) {
  auto attached = Learner::attach(server, deadline_in(std::chrono::seconds(10)), {.slot = slot});
  EXPECT_OK(attached);
  return std::move(attached).value();
}

}  // namespace ffdl::testing
