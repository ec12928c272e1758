#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fork_private_fd.h"
#include "ffdl/comm/communicator.h"
#include "net/byte_stream.h"

namespace ffdl::comm {

// Encrypts the proved connections of a member, given by rank with none at its own, and returns
// their streams by rank. The keys are derived from `token` (network/greeting.h), one per pair of
// members. The sockets must stay open for as long as the streams exist. Calls `interrupt_check` of
// `options` while it waits.
// Errors: kTimeout, kPeerLost (names the rank), kExhausted, those of `interrupt_check`.
Result<std::vector<std::unique_ptr<net::ByteStream>>> encrypt_links(
    const World& world, const std::vector<base::ForkPrivateFd>& sockets, const std::string& token,
    Time deadline, const CommunicatorOptions& options);

}  // namespace ffdl::comm
