#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ffdl::net {

// Bytes as text that JSON can hold: RFC 4648, with padding. At most 1 GiB.
std::string to_base64(std::string_view bytes);
// None where it is not whole, or holds anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ffdl::net
