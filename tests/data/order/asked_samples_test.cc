#include "data/order/asked_samples.h"

#include <gtest/gtest.h>

#include "data/numbered_source.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using testing::number_of;
using testing::NumberedSource;

class AskedSamplesTest : public ::testing::Test {
 protected:
  AskedSamplesTest() {
    for (int i = 0; i < 3; ++i) sources_.push_back(std::make_unique<NumberedSource>(100));
  }
  NumberedSource& source(size_t i) { return static_cast<NumberedSource&>(*sources_[i]); }

  std::vector<std::unique_ptr<DataSource>> sources_{};
  SampleBatch batch_{};
};

TEST_F(AskedSamplesTest, AreGivenInTheOrderInWhichTheyWereAskedFor) {
  AskedSamples first;
  first.add(1, 50);
  ASSERT_OK(first.read(sources_, "a whole", batch_));
  AskedSamples asked;
  const std::vector<std::pair<size_t, uint64_t>> order = {{2, 9}, {0, 4}, {2, 1}, {2, 9}, {0, 3}};
  for (const auto& [source, number] : order) asked.add(source, number);
  ASSERT_OK(asked.read(sources_, "a whole", batch_));
  ASSERT_EQ(batch_.size(), 6U);
  EXPECT_EQ(number_of(batch_[0]), 50U) << "what was there before stays";
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(number_of(batch_[i + 1]), order[i].second);
  EXPECT_EQ(source(0).reads, 1);
  EXPECT_EQ(source(1).reads, 1);
  EXPECT_EQ(source(2).reads, 1);
}

TEST_F(AskedSamplesTest, OfNothingAreNone) {
  EXPECT_OK(AskedSamples().read(sources_, "a whole", batch_));
  EXPECT_EQ(batch_.size(), 0U);
}

// A user's source that violates the rules.
class ForgetfulSource final : public NumberedSource {
 public:
  using NumberedSource::NumberedSource;
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    return NumberedSource::read(indices.subspan(1), batch);
  }
};

TEST_F(AskedSamplesTest, SayWhichSourceFailed) {
  AskedSamples asked;
  for (const uint64_t number : {1, 2, 3}) asked.add(1, number);
  source(1).fails_at = 2;
  EXPECT_FAILS(asked.read(sources_, "a whole", batch_), StatusCode::kUnavailable, "disk is away");
  sources_[1] = std::make_unique<ForgetfulSource>(100);
  batch_.clear();
  EXPECT_FAILS(asked.read(sources_, "a whole", batch_), StatusCode::kInvalidArgument,
               "read 3 samples of source 1 of a whole: it returned 2");
}

}  // namespace
}  // namespace ffdl::data
