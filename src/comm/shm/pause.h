#pragma once

#include <functional>

#include "ffdl/status.h"

namespace ffdl::comm {

// A function that is called between two polls. An error from it ends the wait.
using Pause = std::function<Status()>;

}  // namespace ffdl::comm
