#pragma once

#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"
#include "net/address.h"

// Manages the folder of a TCP store. The process that serves it holds `server.lock`. `log` contains
// the store, and `address` is where the present or last server listens.
namespace ffdl::store {

// Returns the lock, held until it is closed or the process dies. Makes the folder if it is absent.
// Errors: kConflict (another process has it), kUnavailable.
Result<base::ForkPrivateFd> lock_server_folder(const std::string& folder);

std::string log_in(const std::string& folder);

// Errors: kNotFound (no server has used this folder yet), kCorrupt, kUnavailable.
Result<net::Address> read_server_address(const std::string& folder);
Status write_server_address(const std::string& folder, const net::Address& address);

}  // namespace ffdl::store
