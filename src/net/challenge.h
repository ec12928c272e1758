#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// Proves to two sides of a connection that both know a secret, without sending it. Each side sends
// random bytes, and the other returns their HMAC-SHA256 under the secret. The server proves first:
// a client proves nothing to a server that cannot. A proof lets its reader test guesses of the
// secret, so a secret must be random: 32 bytes. Later data on the connection is neither encrypted
// nor signed.
namespace ffdl::net {

inline constexpr size_t kNonceBytes = 32;

// Returns random bytes that are unpredictable. Errors: kUnavailable.
Result<std::string> make_nonce();

// Returns the HMAC-SHA256 of the parts, each with its length, so that no other parts have the same.
std::string mac_of(std::string_view secret, std::initializer_list<std::string_view> parts);

// Compares in the same time for every wrong one, so that the time reveals nothing.
bool same_mac(std::string_view a, std::string_view b);

}  // namespace ffdl::net
