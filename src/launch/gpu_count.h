#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ffdl/export.h"

namespace ffdl::launch {

// Returns the number of NVIDIA's GPUs that a process on this host may use. That is the number of
// GPUs in `visible` (CUDA_VISIBLE_DEVICES), of which a number below 0 ends the list. Without that
// variable it is the number of devices nvidia0, nvidia1, ... in the folder.
FFDL_API int count_gpus(const std::optional<std::string>& visible,
                        const std::filesystem::path& devices = "/dev");

}  // namespace ffdl::launch
