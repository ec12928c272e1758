#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>

namespace ffdl::cli {

inline constexpr double kSecondsMax = 1e9;  // 30 years: in nanoseconds it fits in 64 bits
inline constexpr double kCountMax = 1e9;

// Accepts numbers from `least` to `most`. CLI::Range and similar checks also accept a text that is
// not a number, since every comparison with NaN is false.
inline CLI::Validator within(double least, double most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  return CLI::Validator(
      [least, most, range](std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value >= least && value <= most) return std::string();
        return fmt::format("'{}' is not a number {}", text.substr(0, 64), range);
      },
      range);
}

}  // namespace ffdl::cli
