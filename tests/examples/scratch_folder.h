#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace training {

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A fixture with a folder of its own, which goes with it.
class ScratchFolder : public ::testing::Test {
 protected:
  ScratchFolder() {
    std::string name = ::testing::TempDir() + "ffdl-example-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ScratchFolder() override { std::filesystem::remove_all(folder_); }

  std::string file_named(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

}  // namespace training
