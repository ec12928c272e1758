#pragma once

#include <string>

#include "ffdl/status.h"

namespace ffdl::base {

// Checks that no other user can replace `path` or a folder on its way. Each folder above it must
// belong to root or to the effective user. If other users may write to a folder, it must have the
// sticky bit, as /tmp has. Links on the way must belong to one of the two users and lead through
// such folders. A user namespace may not know the host's root, as in containers without privileges.
// Users that it does not know are then trusted as root is. `path` itself is not checked, and absent
// folders are accepted.
//
// Errors: kInvalidArgument (names the folder or link that another user can change), kExhausted,
// kUnavailable.
Status check_parents(const std::string& path);

}  // namespace ffdl::base
