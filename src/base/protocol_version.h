#pragma once

#include <cstdint>

namespace ffdl::base {

// The version of the messages between members of a job: of memberships, sessions and checkpoints.
// It changes with any of them, also with the size of a record that they send as raw bytes. The
// record of the world contains it, so that only the member with another version is refused.
inline constexpr uint64_t kProtocolVersion = 3;

}  // namespace ffdl::base
