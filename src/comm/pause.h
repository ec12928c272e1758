#pragma once

#include <functional>

#include "ffdl/status.h"

namespace ffdl::comm {

// Called between two looks at something that is not over. What is not ok ends the wait.
using Pause = std::function<Status()>;

}  // namespace ffdl::comm
