#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "examples/example_program.h"
#include "examples/gpu_against_host.h"
#include "examples/synthetic_sentences.h"
#include "nlc/device/gpu.h"
#include "nlc/device/libraries.h"
#include "support/programs.h"
#include "support/temp_folder.h"

// Tests the classifier on a real GPU, with NVIDIA's own libraries.
namespace nlc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using training::Program;

constexpr int kLabels = 6;

// Returns NLC_PROGRAM of the environment, for tests that do not run where they were built.
const char* nlc_program() {
  const char* const told = std::getenv("NLC_PROGRAM");
  return told != nullptr ? told : ffdl::kNlcProgram;
}

class NlcOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto gpu = open_gpu();
    if (!gpu.ok()) GTEST_SKIP() << gpu.status().to_string();
    gpu_ = std::move(gpu).value();
    folder_.write("data.json", synthetic_sentences(kLabels).dump());
  }

  Program start(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",  "--device",         "cuda",
                                       "--json", "--data",           folder_.file("data.json"),
                                       "--out",  folder_.file("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(nlc_program(), arguments, folder_.file("errors"));
  }

  const ffdl::TempFolder folder_;
  std::unique_ptr<Gpu> gpu_;
};

#define NLC_SKIP_WITHOUT_LIBRARIES(libraries) \
  const auto libraries = Libraries::load();   \
  if (!libraries.ok()) GTEST_SKIP() << libraries.status().to_string()

TEST_F(NlcOnGpu, GradientsAreThoseOfTheProcessor) {
  NLC_SKIP_WITHOUT_LIBRARIES(libraries);
  expect_gradients_alike(*gpu_, *libraries);
}

TEST_F(NlcOnGpu, StepsAreThoseOfTheProcessor) {
  NLC_SKIP_WITHOUT_LIBRARIES(libraries);
  expect_steps_alike(*gpu_, *libraries);
}

TEST_F(NlcOnGpu, LearnsAndUsesEachSentenceOncePerEpochWhateverDies) {
  NLC_SKIP_WITHOUT_LIBRARIES(libraries);
  Program run = start({"--kill", "--mini-batch", "4", "--epochs", "60"});
  const json summary = run.next("summary");
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_GE(summary["test_accuracy"], 0.8);
  EXPECT_EQ(summary["samples"], 60 * 40 * kLabels);
  EXPECT_EQ(summary["repeated"], 0);
  EXPECT_EQ(summary["missing"], 0);
}

TEST_F(NlcOnGpu, ALibraryThatIsMissingIsNamed) {
  setenv("CUDNN_ROOT", "/nowhere", 1);
  Program run = start({});
  unsetenv("CUDNN_ROOT");
  EXPECT_EQ(run.wait(), 4);
  EXPECT_THAT(run.errors(), HasSubstr("/nowhere/lib/libcudnn_ops.so.9"));
}

}  // namespace
}  // namespace nlc
