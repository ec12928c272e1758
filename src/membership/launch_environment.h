#pragma once

#include <map>
#include <string>

#include "ffdl/launch/environment.h"

namespace ffdl::membership {

// Parses launch_environment() from these variables, name -> value.
Result<std::optional<LaunchEnvironment>> parse_launch_environment(
    const std::map<std::string, std::string>& variables);
// Parses job_environment() from these variables, name -> value.
Result<std::optional<JobEnvironment>> parse_job_environment(
    const std::map<std::string, std::string>& variables);

}  // namespace ffdl::membership
