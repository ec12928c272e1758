#pragma once

#include <functional>
#include <vector>

#include "net/address.h"
#include "net/asio.h"

// Resolves an address on this machine, in the order of its resolver.
namespace ffdl::net {

using Endpoints = std::vector<asio::ip::tcp::endpoint>;

// Returns no endpoints, and sets `error`, if there are none.
// Blocks: as long as the machine's resolver, unless the host is a number.
Endpoints resolve(asio::io_context& context, const Address& address, asio::error_code& error);

// Resolves without blocking. `done` is called on the loop, never before this returns. If the loop
// ends meanwhile, it waits for the machine's resolver.
using OnResolved = std::function<void(const asio::error_code& error, const Endpoints& found)>;
void resolve_async(asio::io_context& context, const Address& address, OnResolved done);

// Returns the endpoints on which a server for `address` may listen. It excludes loopback, which no
// other machine reaches, unless that was requested by number or as localhost.
Endpoints to_listen_on(const Address& address, Endpoints found);

}  // namespace ffdl::net
