#pragma once

#include "net/address.h"
#include "net/asio.h"

namespace ffdl::net {

// What an address stands for on this machine; empty, and `error` set, where it is nothing.
// Blocks: as long as the machine's resolver, unless the host is a number.
inline asio::ip::tcp::resolver::results_type resolve(asio::io_context& context,
                                                     const Address& address,
                                                     asio::error_code& error) {
  asio::ip::tcp::resolver resolver(context);
  // Not the flag that hides loopback addresses where a machine has no other.
  return resolver.resolve(address.host, std::to_string(address.port),
                          asio::ip::resolver_base::flags(), error);
}

}  // namespace ffdl::net
