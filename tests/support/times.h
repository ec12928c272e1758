#pragma once

#include "ffdl/types.h"

namespace ffdl::testing {

// Long enough for a busy machine; what waits for something ends when it comes.
inline Time soon() { return deadline_in(std::chrono::seconds(30)); }

// A made-up time, for what is told the time.
constexpr Time at(Duration since_the_start) { return Time(since_the_start); }

}  // namespace ffdl::testing
