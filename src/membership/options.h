#pragma once

#include "ffdl/membership.h"

namespace ffdl::membership {

// Checks that these numbers can work together. Errors: kInvalidArgument, which names the two that
// cannot.
Status check_options(const MembershipOptions& options);

}  // namespace ffdl::membership
