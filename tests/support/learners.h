#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "support/status_matchers.h"

// Makes a server and its learners in one process.
namespace ffdl::testing {

inline std::unique_ptr<ParameterServer> create_server(const ParameterServerOptions& options) {
  auto created = ParameterServer::create(options);
  EXPECT_OK(created);
  return std::move(created).value();
}

inline std::unique_ptr<Learner> attach(const ParameterServer& server, int slot = kAnySlot) {
  auto attached = Learner::attach(server, deadline_in(std::chrono::seconds(60)), {.slot = slot});
  EXPECT_OK(attached);
  return std::move(attached).value();
}

// Returns the next sample of a partition that only this learner pushes: that of its slot, or
// another.
inline SampleRange next_sample(const Learner& learner, int partition = -1) {
  const auto own = static_cast<uint32_t>(partition < 0 ? learner.slot() : partition);
  const auto begin = learner.pushed(own);
  EXPECT_OK(begin);
  return {.partition = own, .begin = begin.ok() ? *begin : 0, .end = begin.ok() ? *begin + 1 : 0};
}

}  // namespace ffdl::testing
