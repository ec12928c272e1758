#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ffdl::net {

// Encodes bytes as text for JSON: RFC 4648, with padding. At most 1 GiB.
std::string to_base64(std::string_view bytes);
// Returns nullopt if the text is not whole, or contains anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ffdl::net
