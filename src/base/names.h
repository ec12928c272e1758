#pragma once

#include <algorithm>
#include <string_view>

#include "base/limits.h"

namespace ffdl::base {

// Returns true if the text can be a member's id or a job's name, each a part of a key.
inline bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMemberIdMax &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c < '\x7f' && c != '/'; });
}

}  // namespace ffdl::base
