#include "comm/operation/operation_gate.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

TEST(OperationGate, TheFirstFailureStays) {
  OperationGate gate;
  ASSERT_OK(gate.enter());
  EXPECT_TRUE(gate.running());
  ASSERT_OK(gate.leave({}));
  EXPECT_FALSE(gate.running());
  ASSERT_OK(gate.enter());
  EXPECT_FAILS(gate.leave(Status(StatusCode::kPeerLost, "first")), StatusCode::kPeerLost, "first");
  EXPECT_FAILS(gate.enter(), StatusCode::kPeerLost, "first");
  EXPECT_FALSE(gate.running());
  gate.end(Status(StatusCode::kCancelled, "second"), [] {});
  EXPECT_FAILS(gate.enter(), StatusCode::kPeerLost, "first");
}

TEST(OperationGate, AnEndWaitsForWhatRunsWhichIsNotOkAnyMore) {
  OperationGate gate;
  ASSERT_OK(gate.enter());
  std::thread runner;
  Status left;
  gate.end(Status(StatusCode::kCancelled, "enough"),
           [&] { runner = std::thread([&] { left = gate.leave({}); }); });
  EXPECT_FALSE(gate.running());
  runner.join();
  EXPECT_FAILS(left, StatusCode::kCancelled, "enough");
}

}  // namespace
}  // namespace ffdl::comm
