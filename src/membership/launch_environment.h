#pragma once

#include <map>
#include <string>

#include "ffdl/launch_environment.h"

namespace ffdl::membership {

// launch_environment() of these variables, name -> value.
Result<std::optional<LaunchEnvironment>> parse_launch_environment(
    const std::map<std::string, std::string>& variables);
// job_environment() of them.
Result<std::optional<JobEnvironment>> parse_job_environment(
    const std::map<std::string, std::string>& variables);

}  // namespace ffdl::membership
