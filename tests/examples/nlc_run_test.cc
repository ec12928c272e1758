// Runs the example of queries as a user does, on made-up sentences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "examples/example_program.h"
#include "examples/synthetic_sentences.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace nlc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using training::Program;

constexpr int kLabels = 6;

class NlcRun : public ::testing::Test {
 protected:
  NlcRun() { folder_.write("data.json", synthetic_sentences(kLabels).dump()); }

  Program start(std::vector<std::string> more) const {
    std::vector<std::string> arguments{
        "train", "--json", "--data", folder_.file("data.json"), "--out", folder_.file("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(ffdl::kNlcProgram, arguments, folder_.file("errors"));
  }

  const ffdl::TempFolder folder_;
};

TEST_F(NlcRun, LearnsAndUsesEachSentenceOncePerEpochWhateverDies) {
  constexpr int kEpochs = 20;
  Program run = start({"--kill", "--mini-batch", "4", "--epochs", std::to_string(kEpochs)});
  const json start = run.next("start");
  EXPECT_EQ(start["train_samples"], 40 * kLabels);
  json last = start;
  for (json event = run.next(); !event.is_null(); event = run.next()) last = event;
  EXPECT_EQ(run.wait(), 0) << run.errors();
  ASSERT_EQ(last["event"], "summary");
  EXPECT_GE(last["test_accuracy"], 0.8);  // chance: 0.17
  EXPECT_GE(last["val_accuracy"], 0.8);
  EXPECT_GT(last["samples_per_s"], 0);
  EXPECT_GT(last["bytes_per_s"], 0);
  EXPECT_GT(last["seconds"], 0);
  EXPECT_EQ(last["epochs"], kEpochs);
  EXPECT_EQ(last["samples"], 40 * kLabels * kEpochs);
  EXPECT_EQ(last["repeated"], 0);
  EXPECT_EQ(last["missing"], 0);
  EXPECT_EQ(last["server_epoch"], 2);
  EXPECT_FALSE(training::segment_exists(start["segment"]));
}

TEST_F(NlcRun, TakesOtherRulesAndSynchronies) {
  const std::vector<std::vector<std::string>> choices{
      {"--rule", "sgd", "--synchrony", "bulk"},
      {"--rule", "momentum", "--synchrony", "stale", "--staleness", "1"},
      {"--rule", "adamw", "--learners", "3"}};
  for (const auto& choice : choices) {
    SCOPED_TRACE(choice[1]);
    Program run = start(choice);
    EXPECT_EQ(run.next("summary")["samples"], 10 * 40 * kLabels);
    EXPECT_EQ(run.wait(), 0) << run.errors();
  }
}

// Machines with a GPU hide it for this test.
TEST_F(NlcRun, WithoutAGpuItSaysSoAndStartsNothing) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  Program run = start({"--device", "cuda"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(run.next().is_null());  // not one process
  EXPECT_EQ(run.wait(), 4);
  EXPECT_THAT(run.errors(), HasSubstr("nlc: "));
  EXPECT_THAT(run.errors(), HasSubstr("Unimplemented: "));
  EXPECT_THAT(run.errors(), HasSubstr("; "));
  EXPECT_THAT(run.errors(), HasSubstr("train with --device cpu"));
}

TEST_F(NlcRun, MissingDataIsNamed) {
  Program none(ffdl::kNlcProgram, {"train"}, folder_.file("errors"));
  EXPECT_NE(none.wait(), 0);
  EXPECT_THAT(none.errors(), HasSubstr("--data is missing"));
  EXPECT_THAT(none.errors(), HasSubstr("clinc/oos-eval"));
  Program empty(ffdl::kNlcProgram, {"train", "--data", "/dev/null"}, folder_.file("errors"));
  EXPECT_EQ(empty.wait(), 1);
  EXPECT_THAT(empty.errors(), HasSubstr("read sentences '/dev/null'"));
}

}  // namespace
}  // namespace nlc
