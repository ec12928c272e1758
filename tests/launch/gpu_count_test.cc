#include "launch/gpu_count.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

TEST(CountGpus, TheVariableListsThem) {
  const std::pair<const char*, int> cases[] = {
      {"", 0},
      {"0", 1},
      {"0,1,2,3", 4},
      {"2, 5", 2},
      {"-1", 0},
      {"0,-1,2", 1},
      {"GPU-8932f937,GPU-2", 2},
      {"NoDevFiles", 0},
      {"0,,1", 1},
  };
  for (const auto& [visible, count] : cases) {
    EXPECT_EQ(count_gpus(visible, "/nonexistent"), count) << visible;
  }
}

TEST(CountGpus, WithoutItTheDevicesAreCounted) {
  const TempFolder folder;
  for (const char* const name :
       {"nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    std::ofstream(std::filesystem::path(folder.path()) / name) << "";
  }
  EXPECT_EQ(count_gpus(std::nullopt, folder.path()), 3);
  EXPECT_EQ(count_gpus(std::nullopt, "/nonexistent"), 0);
}

}  // namespace
}  // namespace ffdl::launch
