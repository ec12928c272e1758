#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ffdl/ps/parameter_server.h"
#include "support/low_limit.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

class CutFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("ffdl-cut-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "model.cut";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static ParameterServerCut example() {
    return {.version = 12,
            .updates = 7,
            .rule = "adam",
            .weights = {1, -2, 3.5F},
            .state = {{4, 5, 6}, {7, 8, 9}},
            .partitions = {{.committed = 40, .samples = 40},
                           {.committed = 3, .samples = 2, .repeated = 1}}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(CutFile, LoadsWhatWasSaved) {
  const ParameterServerCut saved = example();
  ASSERT_OK(saved.save(path_));
  ASSERT_OK(saved.save(path_));  // over the old one
  ASSERT_OK_AND_ASSIGN(const ParameterServerCut loaded, ParameterServerCut::load(path_));
  EXPECT_EQ(loaded.version, 12U);
  EXPECT_EQ(loaded.updates, 7U);
  EXPECT_EQ(loaded.rule, "adam");
  EXPECT_EQ(loaded.weights, saved.weights);
  EXPECT_EQ(loaded.state, saved.state);
  ASSERT_EQ(loaded.partitions.size(), 2U);
  EXPECT_EQ(loaded.partitions[1].repeated, 1U);
  EXPECT_EQ(files(), 1U);
}

TEST_F(CutFile, NoTornOrChangedFileIsLoaded) {
  ASSERT_OK(example().save(path_));
  std::ifstream in(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const auto load_bytes = [&](const std::string& bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return ParameterServerCut::load(path_).status().code();
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(load_bytes(whole.substr(0, size)), StatusCode::kCorrupt) << "cut off at " << size;
  }
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 0x41);
    ASSERT_EQ(load_bytes(changed), StatusCode::kCorrupt) << "changed at " << byte;
  }
  EXPECT_EQ(load_bytes(whole), StatusCode::kOk);
  EXPECT_EQ(load_bytes(whole + "x"), StatusCode::kCorrupt);
}

TEST_F(CutFile, FileThatDoesNotFitLeavesTheOldOne) {
  ASSERT_OK(example().save(path_));
  ParameterServerCut large = example();
  large.weights.resize(1'000'000);
  large.state.clear();
  {
    const testing::LowLimit small(RLIMIT_FSIZE, 100'000);
    EXPECT_FAILS(large.save(path_), StatusCode::kExhausted, "ulimit -f");
  }
  ASSERT_OK_AND_ASSIGN(const ParameterServerCut loaded, ParameterServerCut::load(path_));
  EXPECT_EQ(loaded.weights, example().weights);
  EXPECT_EQ(files(), 1U);
}

TEST_F(CutFile, MissingFilesAndFoldersSaySo) {
  EXPECT_FAILS(ParameterServerCut::load(path_), StatusCode::kNotFound, "model.cut");
  EXPECT_FAILS(example().save((folder_ / "no" / "such").string()), StatusCode::kUnavailable,
               "No such file");
}

}  // namespace
}  // namespace ffdl
