#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::net {

// The address of a server: "127.0.0.1:2990", "[::1]:2990", "node7:2990".
struct Address {
  std::string host;
  uint16_t port = 0;  // 0: any free one, for a listener

  std::string text() const;
  // Returns whether loopback was requested: by its number, or as localhost. Any other name is meant
  // for other machines, even if it resolves to loopback here.
  bool is_loopback() const;
  bool operator==(const Address&) const = default;
};

// Errors: kInvalidArgument.
Result<Address> parse_address(std::string_view text);

}  // namespace ffdl::net
