#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "ffdl/status.h"

// How two sides of a connection prove to each other that they know a secret, without telling it:
// each sends random bytes, and the other returns their HMAC-SHA256 under the secret. What follows
// on the connection is neither encrypted nor signed.
namespace ffdl::net {

inline constexpr size_t kNonceBytes = 32;

// Random bytes that nobody can foretell. Errors: kUnavailable.
Result<std::string> make_nonce();

// HMAC-SHA256 of the parts, each with its length, so that no other parts give the same.
std::string mac_of(std::string_view secret, std::initializer_list<std::string_view> parts);

// Takes as long for every wrong one, so that its time tells nothing.
bool same_mac(std::string_view a, std::string_view b);

}  // namespace ffdl::net
