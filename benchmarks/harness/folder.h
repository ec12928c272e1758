#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ffdl/status.h"

namespace ffdl::bench {

// Creates a folder for one measurement; the caller removes it.
inline Result<std::string> make_folder() {
  std::string folder = (std::filesystem::temp_directory_path() / "ffdl-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) != nullptr) return folder;
  return Status(StatusCode::kUnavailable, "make a temporary folder: it could not be made");
}

}  // namespace ffdl::bench
