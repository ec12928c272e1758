#pragma once

#include <map>
#include <string>

#include "ffdl/membership.h"

namespace ffdl::membership {

// launch_environment() of these variables, name -> value.
Result<std::optional<LaunchEnvironment>> parse_launch_environment(
    const std::map<std::string, std::string>& variables);

}  // namespace ffdl::membership
