#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/network/links.h"
#include "ffdl/comm/communicator.h"
#include "support/ranks.h"
#include "support/times.h"

namespace ffdl {

using testing::soon;

struct BackEnd {
  std::string name;
  std::function<testing::Ranks(uint64_t generation, const std::vector<Member>& members)> make;
  bool needs_gloo = false;
  // The back end adds in an order of its own, and does not support every type.
  bool own_arithmetic = false;
};

// Tests that every back end behaves as communicator.h documents. A new back end is one more line at
// the end of communicator_conformance_test.cc.
class CommunicatorConformance : public ::testing::TestWithParam<BackEnd> {
 protected:
  void SetUp() override {
    if (const Status gloo = comm::have_gloo(); GetParam().needs_gloo && !gloo.ok()) {
      GTEST_SKIP() << gloo.to_string();
    }
  }
  // Returns true for the one back end that is exempt from the order of additions in communicator.h.
  static bool adds_in_its_own_way() { return GetParam().own_arithmetic; }
  static testing::Ranks make(int ranks) {
    return GetParam().make(1, testing::members_named(ranks));
  }
};

// Returns a number that identifies its rank and position.
inline double tagged(int rank, uint64_t i) { return 1e6 * rank + static_cast<double>(i); }

// Returns the first failure of two barriers. A failing rank may have entered one barrier already,
// which then still succeeds at another rank.
inline Status first_failure(Communicator& communicator) {
  Status status = communicator.barrier(soon());
  return status.ok() ? communicator.barrier(soon()) : status;
}

}  // namespace ffdl
