#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace ffdl::base {

// Returns the decimal number from 0 on that the whole text is. None: it is another text, or too
// large for an int.
inline std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_one = error == std::errc() && end == text.data() + text.size();
  return is_one && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace ffdl::base
