#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::net {

// Where a server listens: "127.0.0.1:2990", "[::1]:2990", "node7:2990".
struct Address {
  std::string host;
  uint16_t port = 0;  // 0: any free one, for who listens

  std::string text() const;
  // Whether only this machine reaches it. A name counts as what it stands for here; false where it
  // stands for nothing.
  bool is_loopback() const;
  bool operator==(const Address&) const = default;
};

// Errors: kInvalidArgument.
Result<Address> parse_address(std::string_view text);

}  // namespace ffdl::net
