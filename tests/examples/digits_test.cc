#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "digits/dataset.h"
#include "digits/model.h"
#include "examples/synthetic_digits.h"
#include "support/temp_folder.h"
#include "training/shares.h"

namespace digits {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& path, ffdl::StatusCode code) {
  const auto samples = load_samples(path);
  EXPECT_FALSE(samples.ok());
  EXPECT_EQ(samples.status().code(), code);
  return std::string(samples.status().message());
}

class LoadSamples : public ::testing::Test {
 protected:
  std::string error_of_text(const std::string& text) const {
    return error_of(folder_.write("malformed.csv", text), ffdl::StatusCode::kCorrupt);
  }

  const ffdl::TempFolder folder_;
};

TEST_F(LoadSamples, ReadsPlainAndGzippedFiles) {
  const std::string text = synthetic_text(20);
  folder_.write("plain.csv", text);
  write_gzipped(folder_.file("packed.csv.gz"), text);
  const auto plain = load_samples(folder_.file("plain.csv"));
  const auto packed = load_samples(folder_.file("packed.csv.gz"));
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(plain->size(), 20U);
  EXPECT_EQ(plain->labels[13], 3);
  EXPECT_EQ(plain->pixels, packed->pixels);
  EXPECT_EQ(*std::max_element(plain->pixels.begin(), plain->pixels.end()), 1.0F);
}

TEST_F(LoadSamples, MissingFile) {
  EXPECT_THAT(error_of("/nowhere/digits.csv.gz", ffdl::StatusCode::kNotFound),
              HasSubstr("'/nowhere/digits.csv.gz': No such file"));
}

TEST_F(LoadSamples, TruncatedFile) {
  const std::string path = folder_.file("truncated.csv.gz");
  write_gzipped(path, synthetic_text(200));
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  folder_.write("truncated.csv.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(error_of(path, ffdl::StatusCode::kCorrupt), HasSubstr("ends too early"));
}

TEST_F(LoadSamples, DamagedFile) {
  const std::string path = folder_.file("damaged.csv.gz");
  write_gzipped(path, synthetic_text(200));
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 8; ++i) bytes[i] ^= '\x5a';
  folder_.write("damaged.csv.gz", bytes);
  EXPECT_THAT(error_of(path, ffdl::StatusCode::kCorrupt), HasSubstr("copy it again"));
}

TEST_F(LoadSamples, MalformedLinesAreNamed) {
  const std::string good = synthetic_text(2);
  std::string line = synthetic_text(1);
  line.pop_back();
  EXPECT_THAT(error_of_text(good + "1,2,3\n"), HasSubstr("line 3: value 3 is not a pixel"));
  EXPECT_THAT(error_of_text(good + "17" + line.substr(1)), HasSubstr("line 3: value 1 is not"));
  EXPECT_THAT(error_of_text("x\n" + good), HasSubstr("line 1: value 1 is not a pixel"));
  EXPECT_THAT(error_of_text(line + ",1\n"), HasSubstr("line 1: more than 65 values"));
  EXPECT_THAT(error_of_text(line.substr(0, line.size() - 1) + "10\n"), HasSubstr("not a label"));
  EXPECT_THAT(error_of_text(good + "\n" + good), HasSubstr("line 3: value 1 is not a pixel"));
  EXPECT_THAT(error_of_text(""), HasSubstr("no lines"));
}

TEST(SplitSamples, EachSampleIsInOnePart) {
  Samples all;
  for (int i = 0; i < 1797; ++i) {
    std::vector<float> image(kPixels, static_cast<float>(i));
    all.append(image, i % kClasses);
  }
  const auto split = split_samples(all);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->train.size(), 1257U);
  EXPECT_EQ(split->validation.size(), 179U);
  EXPECT_EQ(split->test.size(), 361U);
  std::set<float> seen;
  for (const Samples* part : {&split->train, &split->validation, &split->test}) {
    for (std::size_t i = 0; i < part->size(); ++i) {
      EXPECT_TRUE(seen.insert(part->image(i)[0]).second);
      EXPECT_EQ(part->labels[i], static_cast<int>(part->image(i)[0]) % kClasses);
    }
  }
  EXPECT_EQ(seen.size(), all.size());
}

TEST(SplitSamples, TooFewSamples) {
  const auto split = split_samples(Samples());
  ASSERT_FALSE(split.ok());
  EXPECT_EQ(split.status().code(), ffdl::StatusCode::kInvalidArgument);
}

// Trains with plain gradient descent in one process, without a server.
TEST(Learning, TheModelLearnsSyntheticDigits) {
  const ffdl::TempFolder folder;
  const auto samples = load_samples(folder.write("learn.csv", synthetic_text(400)));
  const auto split = split_samples(samples.value()).value();
  Model model;
  std::vector<float> weights(model.parameters());
  std::vector<float> gradient(model.parameters());
  model.initialize(weights, 1);
  EXPECT_LT(model.evaluate(weights, split.test).accuracy, 0.6F);

  const training::Share share{0, 1, split.train.size()};
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    const auto order = training::epoch_order(1, epoch, share);
    for (std::size_t begin = 0; begin < order.size(); begin += 16) {
      Samples mini_batch;
      for (std::size_t i = begin; i < std::min(begin + 16, order.size()); ++i) {
        mini_batch.append(split.train.image(order[i]), split.train.labels[order[i]]);
      }
      model.gradient(weights, mini_batch, gradient);
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.05F * gradient[i];
    }
  }
  EXPECT_GE(model.evaluate(weights, split.test).accuracy, 0.97F);
}

}  // namespace
}  // namespace digits
