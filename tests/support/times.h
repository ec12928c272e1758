#pragma once

#include "ffdl/types.h"

namespace ffdl::testing {

// Returns a deadline long enough for a busy machine. A wait ends earlier, with its event.
inline Time soon() { return deadline_in(std::chrono::seconds(60)); }

// Returns a made-up time, for functions that take the time.
constexpr Time at(Duration since_the_start) { return Time(since_the_start); }

}  // namespace ffdl::testing
