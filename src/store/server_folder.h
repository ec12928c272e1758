#pragma once

#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"
#include "net/address.h"

// The folder of a TCP store: `server.lock` is held by the process that serves it, `log` is what it
// holds, and `address` says where it listens, or where the last one did.
namespace ffdl::store {

// The lock, until it is closed or the process dies. Makes the folder if it is absent.
// Errors: kConflict (another has it), kUnavailable.
Result<base::ForkPrivateFd> lock_server_folder(const std::string& folder);

std::string log_in(const std::string& folder);

// Errors: kNotFound (nobody has served this folder yet), kCorrupt, kUnavailable.
Result<net::Address> read_server_address(const std::string& folder);
Status write_server_address(const std::string& folder, const net::Address& address);

}  // namespace ffdl::store
