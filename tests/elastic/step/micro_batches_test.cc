#include "elastic/step/micro_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::members_named;
using ffdl::testing::on_each;
using ffdl::testing::soon;

constexpr size_t kFloats = 37;
constexpr size_t kDoubles = 5;
constexpr uint64_t kWhole = 4;

struct Gradient {
  std::vector<float> floats = std::vector<float>(kFloats);
  std::vector<double> doubles = std::vector<double>(kDoubles);
  std::vector<Buffer> buffers = {{floats.data(), kFloats, DType::kFloat32},
                                 {doubles.data(), kDoubles, DType::kFloat64}};
  std::vector<std::span<const Buffer>> runs = {std::span(buffers).first(1),
                                               std::span(buffers).last(1)};

  // Computes the mean of a micro-batch. Each order of addition has its own bits.
  void compute(uint64_t micro_batch) {
    const auto value = [&](size_t i) {
      return std::sin(static_cast<double>(micro_batch * 100 + i)) * std::exp2(micro_batch % 11);
    };
    for (size_t i = 0; i < kFloats; ++i) floats[i] = static_cast<float>(value(i));
    for (size_t i = 0; i < kDoubles; ++i) doubles[i] = value(i);
  }
};

struct Mean {
  std::vector<float> floats;
  std::vector<double> doubles;

  bool operator==(const Mean&) const = default;
};

// Returns the gradients of each rank after a step of micro-batches with these samples and shares.
// Makes a second step to check that the first left nothing behind.
std::vector<Mean> means(const std::vector<uint64_t>& shares, const std::vector<uint64_t>& samples) {
  const int ranks = static_cast<int>(shares.size());
  const auto world = *make_local_communicators(1, members_named(ranks));
  uint64_t all = 0;
  for (const uint64_t one : samples) all += one;
  std::vector<Mean> means(shares.size());
  on_each(world, [&](Communicator& communicator, int rank) {
    Gradient gradient;
    MicroBatches sum(gradient.runs, [&] { return shares; }, kWhole, [] { return Status(); });
    uint64_t begin = 0;
    for (int before = 0; before < rank; ++before) begin += shares[static_cast<size_t>(before)];
    for (int step = 0; step < 2; ++step) {
      ASSERT_OK(sum.begin_step(communicator, soon()));
      const uint64_t end = begin + shares[static_cast<size_t>(rank)];
      for (uint64_t i = begin; i < std::min<uint64_t>(end, samples.size()); ++i) {
        gradient.compute(i);
        ASSERT_OK(sum.add(samples[i]));
      }
      ASSERT_OK(sum.finish(all, soon()));
      const Mean mean = {gradient.floats, gradient.doubles};
      if (step == 1) {
        EXPECT_EQ(means[static_cast<size_t>(rank)], mean);
      }
      means[static_cast<size_t>(rank)] = mean;
    }
  });
  return means;
}

TEST(MicroBatches, AStepIsCutOnce) {
  const auto world = *make_local_communicators(1, members_named(1));
  int asked = 0;
  Gradient gradient;
  MicroBatches sum(
      gradient.runs,
      [&] {
        ++asked;
        return std::vector<uint64_t>{3};
      },
      kWhole, [] { return Status(); });
  for (int step = 1; step <= 2; ++step) {
    for (int i = 0; i < 3; ++i) {  // checks before each of them, as a session does
      ASSERT_OK(sum.begin_step(*world.front(), soon()));
      ASSERT_OK(sum.add(kWhole));
    }
    EXPECT_FAILS(sum.add(kWhole), StatusCode::kInvalidArgument, "all 3");
    ASSERT_OK(sum.finish(3 * kWhole, soon()));
    EXPECT_EQ(asked, step);
  }
}

TEST(MicroBatches, TheSameBitsWhateverTheShares) {
  // Six of eight micro-batches exist, and the last is short, as at the end of an epoch.
  const std::vector<uint64_t> samples = {4, 4, 4, 4, 4, 1};
  const Mean expected = means({8}, samples).front();
  for (const std::vector<uint64_t>& shares :
       {std::vector<uint64_t>{4, 4}, {5, 3}, {0, 8}, {3, 3, 2}, {2, 0, 6}}) {
    for (const Mean& mean : means(shares, samples)) EXPECT_EQ(mean, expected);
  }
}

TEST(MicroBatches, IsTheMeanOverSamples) {
  const std::vector<uint64_t> samples = {4, 2, 0, 3};
  const Mean mean = means({2, 2}, samples).front();
  Gradient gradient;
  std::vector<double> expected(kDoubles);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    gradient.compute(i);
    for (size_t j = 0; j < kDoubles; ++j) {
      expected[j] += gradient.doubles[j] * static_cast<double>(samples[i]) / 9;
    }
  }
  for (size_t j = 0; j < kDoubles; ++j) EXPECT_NEAR(mean.doubles[j], expected[j], 1e-12);
}

TEST(MicroBatches, NothingIsGivenOnceTheMembersLifeIsOver) {
  const auto world = *make_local_communicators(1, members_named(1));
  Gradient gradient;
  bool is_over = false;
  MicroBatches sum(
      gradient.runs, [] { return std::vector<uint64_t>{1}; }, kWhole,
      [&] { return is_over ? Status(StatusCode::kCancelled, "fenced") : Status(); });
  ASSERT_OK(sum.begin_step(*world.front(), soon()));
  is_over = true;
  EXPECT_EQ(sum.finish(kWhole, soon()).code(), StatusCode::kCancelled);
}

TEST(MicroBatches, NobodyHasAShare) {
  const auto world = *make_local_communicators(1, members_named(2));
  on_each(world, [&](Communicator& communicator, int) {
    Gradient gradient;
    MicroBatches sum(
        gradient.runs, [] { return std::vector<uint64_t>{0, 0}; }, kWhole, [] { return Status(); });
    EXPECT_OK(sum.begin_step(communicator, soon()));
    EXPECT_EQ(sum.add(kWhole).code(), StatusCode::kInvalidArgument);
  });
}

TEST(MicroBatches, NoMoreThanTheShareAndNothingOfAStepThatWasDropped) {
  const auto world = *make_local_communicators(1, members_named(1));
  Gradient gradient;
  MicroBatches sum(
      gradient.runs, [] { return std::vector<uint64_t>{2}; }, kWhole, [] { return Status(); });
  ASSERT_OK(sum.begin_step(*world.front(), soon()));
  gradient.compute(7);
  ASSERT_OK(sum.add(kWhole));
  sum.drop();
  ASSERT_OK(sum.begin_step(*world.front(), soon()));
  for (int i = 0; i < 2; ++i) {
    gradient.compute(1);
    ASSERT_OK(sum.add(kWhole));
  }
  EXPECT_EQ(sum.add(kWhole).code(), StatusCode::kInvalidArgument);
  ASSERT_OK(sum.finish(2 * kWhole, soon()));
  Gradient expected;
  expected.compute(1);
  EXPECT_EQ(gradient.doubles, expected.doubles);
}

}  // namespace
}  // namespace ffdl::elastic
