#pragma once

#include <chrono>

#include "ffdl/membership.h"

namespace ffdl::testing {

// Returns options of a member whose lease a busy machine can keep alive.
inline MembershipOptions patient_membership(Duration lease) {
  MembershipOptions options;
  options.heartbeat = std::chrono::milliseconds(50);
  options.lease = lease;
  options.gather = std::chrono::milliseconds(20);
  return options;
}

}  // namespace ffdl::testing
