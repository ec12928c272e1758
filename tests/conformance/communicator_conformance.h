#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/links.h"
#include "ffdl/communicator.h"
#include "support/ranks.h"
#include "support/times.h"

namespace ffdl {

using testing::soon;

struct BackEnd {
  std::string name;
  std::function<testing::Ranks(uint64_t generation, const std::vector<Member>& members)> make;
  bool needs_links = false;
  // It adds in an order of its own, and does not know every type.
  bool own_arithmetic = false;
};

// What every back end must mean by the words of communicator.h. A new one is one more line at the
// end of communicator_conformance_test.cc.
class CommunicatorConformance : public ::testing::TestWithParam<BackEnd> {
 protected:
  void SetUp() override {
    if (const Status links = comm::have_links(); GetParam().needs_links && !links.ok()) {
      GTEST_SKIP() << links.to_string();
    }
  }
  // Of a test of what communicator.h says of all back ends but one.
  static bool adds_in_its_own_way() { return GetParam().own_arithmetic; }
  static testing::Ranks make(int ranks) {
    return GetParam().make(1, testing::members_named(ranks));
  }
};

// A number of which source and place can be told.
inline double tagged(int rank, uint64_t i) { return 1e6 * rank + static_cast<double>(i); }

// A rank that failed may have come before, so that one barrier still ends well at another.
inline Status first_failure(Communicator& communicator) {
  Status status = communicator.barrier(soon());
  return status.ok() ? communicator.barrier(soon()) : status;
}

}  // namespace ffdl
