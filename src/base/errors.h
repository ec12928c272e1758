#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "ffdl/status.h"

// Make errors, so that a message is one line at the place where it arises.
namespace ffdl::base {

template <class... Args>
Status make_error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// Returns the text of an errno value: "No space left on device".
inline std::string errno_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);
}

}  // namespace ffdl::base
