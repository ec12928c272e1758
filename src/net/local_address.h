#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/address.h"

// Finds the addresses of this host.
namespace ffdl::net {

// Returns the IP address from which this host sends to the server, which the kernel chooses by its
// routes. Nothing is sent. Empty if there is no route, or if the server is on loopback.
// Blocks: as long as the machine's resolver, unless the server's host is a number.
std::string address_towards(const Address& server);

// Returns the IP address of this host that `interface` names: the name of an interface ("eth1"), or
// a network ("10.1.0.0/16", "fd00::/8"). An IPv4 address comes before an IPv6 one; link-local
// addresses are not used.
// Errors: kInvalidArgument (none matches; the message lists the interfaces and their addresses).
Result<std::string> address_of_interface(std::string_view interface);

// Returns the IP addresses of this host, without link-local ones.
std::vector<std::string> addresses_of_this_host();

// Returns whether an address of this host is among those of `host`, a name or a number.
// Blocks: as long as the machine's resolver, unless the host is a number.
bool is_this_host(const std::string& host);

}  // namespace ffdl::net
