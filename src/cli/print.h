#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

#include "ffdl/diagnose.h"

namespace ffdl::cli {

template <class T>
constexpr bool kIsText = std::is_convertible_v<const T&, std::string_view>;

// Returns an argument as a terminal may show it: texts by printable(), since other processes may
// have written them.
template <class T>
auto shown(const T& value) {
  if constexpr (kIsText<T>) {
    return printable(std::string_view(value));
  } else {
    return value;
  }
}

template <class T>
using Shown = std::conditional_t<kIsText<T>, std::string, T>;

// Writes a text. Unlike fmt::print it does not throw if the file accepts no more: see
// has_printed_all().
inline void put(std::FILE* to, std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), to));
}

// Formats as fmt::format does, with each argument shown(). All output of the command goes through
// these functions, except documents that it has made itself.
template <class... Args>
std::string format_shown(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  return fmt::format(fmt::runtime(format), shown(args)...);
}
template <class... Args>
void print(std::FILE* to, fmt::format_string<Shown<Args>...> format, const Args&... args) {
  put(to, format_shown<Args...>(format, args...));
}
template <class... Args>
void print(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  put(stdout, format_shown<Args...>(format, args...));
}

// Prints a document of several lines whose own parts are shown() already, or JSON in ASCII.
inline void print_document(std::string_view document) { put(stdout, document); }

// Returns false if standard output has not accepted all output.
inline bool has_printed_all() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace ffdl::cli
