#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ffdl {

// Where a public data set lies, or an empty text where it is not at hand.
inline std::string data_folder(const std::string& name) {
  const char* root = std::getenv("FFDL_DATA_DIR");
  if (root == nullptr) return {};
  const std::filesystem::path folder = std::filesystem::path(root) / name;
  return std::filesystem::exists(folder) ? folder.string() : std::string();
}

}  // namespace ffdl

// The folder of a data set; the test is skipped where it is absent.
#define FFDL_DATA_FOLDER_OR_SKIP(variable, name)                                                \
  const std::string variable = ::ffdl::data_folder(name);                                       \
  if (variable.empty()) {                                                                       \
    GTEST_SKIP() << "the data set '" << name << "' is not under FFDL_DATA_DIR; README.md says " \
                 << "where it is published";                                                    \
  }
