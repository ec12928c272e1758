#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ffdl {

// Returns the folder of a public data set, or an empty text if it is absent.
inline std::string data_folder(const std::string& name) {
  const char* root = std::getenv("FFDL_DATA_DIR");
  if (root == nullptr) return {};
  const std::filesystem::path folder = std::filesystem::path(root) / name;
  return std::filesystem::exists(folder) ? folder.string() : std::string();
}

}  // namespace ffdl

// Declares the folder of a data set, or skips the test if it is absent.
#define FFDL_DATA_FOLDER_OR_SKIP(variable, name)                                                \
  const std::string variable = ::ffdl::data_folder(name);                                       \
  if (variable.empty()) {                                                                       \
    GTEST_SKIP() << "the data set '" << name << "' is not under FFDL_DATA_DIR; "                \
                 << "docs/guide/start.md says where it is published";                           \
  }
