#include "elastic/step/averaging.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::members_named;
using ffdl::testing::on_each;
using ffdl::testing::soon;

std::vector<size_t> sizes_of(const std::vector<std::span<const Buffer>>& buckets) {
  std::vector<size_t> sizes;
  for (const auto bucket : buckets) sizes.push_back(bucket.size());
  return sizes;
}

TEST(CutBuckets, WholeBuffersOfOneDtype) {
  const Buffer four = {nullptr, 1, DType::kFloat32};
  const Buffer eight = {nullptr, 1, DType::kFloat64};
  struct Case {
    std::vector<Buffer> gradients;
    uint64_t bytes;
    std::vector<size_t> expected;
  };
  for (const Case& one : std::vector<Case>{
           {{}, 8, {}},
           {{four, four, four}, 0, {3}},
           {{four, four, four}, 1, {1, 1, 1}},
           {{four, four, four}, 4, {1, 1, 1}},
           {{four, four, four}, 5, {2, 1}},
           {{four, four, four}, 8, {2, 1}},
           {{four, four, four}, 100, {3}},
           {{four, eight, eight, four}, 0, {1, 2, 1}},
           {{four, four, eight, four}, 8, {2, 1, 1}},
           {{{nullptr, 0, DType::kFloat32}, four}, 1, {2}},
       }) {
    EXPECT_EQ(sizes_of(cut_buckets(one.gradients, one.bytes)), one.expected);
  }
}

TEST(JoinNeighbours, WhatLiesOneBehindTheOtherIsOneBuffer) {
  std::vector<float> memory(10);
  const Buffer first = {memory.data(), 4};
  const Buffer second = {memory.data() + 4, 5};
  const Buffer third = {memory.data() + 9, 1};
  Buffer joined;
  const auto places = [&](std::vector<Buffer> bucket) {
    std::vector<std::pair<const void*, uint64_t>> all;
    for (const Buffer& buffer : join_neighbours(bucket, joined)) {
      all.emplace_back(buffer.data, buffer.count);
    }
    return all;
  };
  using Places = std::vector<std::pair<const void*, uint64_t>>;
  EXPECT_EQ(places({first}), (Places{{memory.data(), 4}}));
  EXPECT_EQ(places({first, second, third}), (Places{{memory.data(), 10}}));
  EXPECT_EQ(joined.dtype, DType::kFloat32);
  EXPECT_EQ(places({first, third}), (Places{{memory.data(), 4}, {memory.data() + 9, 1}}));
  EXPECT_EQ(places({second, first}), (Places{{memory.data() + 4, 5}, {memory.data(), 4}}));
}

constexpr size_t kCount = 37;

// Fails the operation with this number, after the other ranks have received the data that they
// need.
class FailingLate final : public Communicator {
 public:
  FailingLate(Communicator& of, int good) : of_(of), left_(good) {}

  const World& world() const override { return of_.world(); }
  Backend backend() const override { return of_.backend(); }
  Status run(const Operation& operation, Time deadline) override {
    const Status outcome = of_.run(operation, deadline);
    if (!outcome.ok() || left_-- > 0) return outcome;
    return Status(StatusCode::kPeerLost, "one that was to be lost here");
  }
  void abort(Status why) override { of_.abort(std::move(why)); }

 private:
  Communicator& of_;
  int left_;
};

// One rank with three gradients, and the way it averages them.
class Rank {
 public:
  explicit Rank(Communicator& communicator, uint64_t bucket_bytes = 1)
      : communicator_(&communicator, [](Communicator*) {}), bucket_bytes_(bucket_bytes) {}

  // Computes values for which each order of addition has its own bits.
  void compute(size_t buffer, int seed) {
    for (size_t i = 0; i < kCount; ++i) {
      const auto x = static_cast<double>(i + 100 * buffer) + 1000 * seed;
      values_[buffer][i] = static_cast<float>(std::sin(x) * std::exp2((seed * 7) % 23));
    }
  }
  std::span<std::byte> describe(uint64_t samples) { return messages_.describe({1, samples}); }
  void start(uint64_t samples) { averaging.start(communicator_, describe(samples)); }
  Status end(uint64_t samples) {
    EXPECT_TRUE(averaging.pause(kNoDeadline));
    if (!averaging.has_gathered()) {
      FFDL_RETURN_IF_ERROR(averaging.gather(*communicator_, describe(samples), samples));
    }
    return averaging.average(*communicator_);
  }
  void use(Communicator& other) {
    communicator_ = std::shared_ptr<Communicator>(&other, [](Communicator*) {});
  }
  void wait_for_buckets(size_t count) {
    EXPECT_TRUE(comes_true([&] { return averaging.buckets_averaged() >= count; }));
  }
  using Values = std::array<std::vector<float>, 3>;
  const Values& values() const { return values_; }
  Status standing{};

 private:
  Values values_ = {std::vector<float>(kCount), std::vector<float>(kCount),
                    std::vector<float>(kCount)};
  std::shared_ptr<Communicator> communicator_;
  const uint64_t bucket_bytes_;
  std::vector<Buffer> gradients_ = {
      {values_[0].data(), kCount}, {values_[1].data(), kCount}, {values_[2].data(), kCount}};
  std::vector<std::span<const Buffer>> buckets_ = cut_buckets(gradients_, bucket_bytes_);
  StepMessages messages_{{}};

 public:
  Averaging averaging{buckets_, messages_, {system_runtime(), [this] { return standing; }, soon}};
};

// Returns the averages of ranks with these samples. Each begins early up to its bucket.
std::vector<Rank::Values> averages(const std::vector<uint64_t>& samples,
                                   const std::vector<size_t>& early, uint64_t bucket_bytes) {
  const auto world = *make_local_communicators(1, members_named(static_cast<int>(samples.size())));
  std::vector<Rank::Values> all(samples.size());
  on_each(world, [&](Communicator& communicator, int number) {
    const auto of_rank = static_cast<size_t>(number);
    Rank rank(communicator, bucket_bytes);
    for (int step = 0; step < 3; ++step) {
      for (size_t buffer = 0; buffer < 3; ++buffer) {
        rank.compute(buffer, number + 10 * step);
        if (buffer >= early[of_rank]) continue;
        ASSERT_OK(rank.averaging.note(buffer + 1, samples[of_rank]));
        if (buffer == 0) rank.start(samples[of_rank]);
        rank.averaging.go_on();
      }
      ASSERT_OK(rank.end(samples[of_rank]));
      rank.averaging.drop();
    }
    all[of_rank] = rank.values();
  });
  return all;
}

TEST(Averaging, TheSameBitsHoweverEarly) {
  for (const std::vector<uint64_t>& samples :
       {std::vector<uint64_t>{4, 4, 4}, {1, 5, 3}, {0, 2, 7}, {0, 6, 0}}) {
    const auto expected = averages(samples, {0, 0, 0}, 0);
    EXPECT_EQ(expected[0], expected[1]);
    for (const std::vector<size_t>& early : {std::vector<size_t>{3, 3, 3}, {0, 3, 1}, {1, 2, 0}}) {
      EXPECT_EQ(averages(samples, early, 1), expected);
      EXPECT_EQ(averages(samples, early, kCount * 8), expected);
    }
  }
}

// A newcomer waits for the ranks that compute. Its own work for their sum is done by then.
TEST(Averaging, WhoHasNoSamplesGivesZerosBeforeTheOthersAreWaitedFor) {
  const auto world = *make_local_communicators(1, members_named(2));
  Rank rank(*world[0]);
  for (size_t buffer = 0; buffer < 3; ++buffer) rank.compute(buffer, 7);
  rank.standing = Status(StatusCode::kCancelled, "asked before the first operation");
  EXPECT_FAILS(rank.end(0), StatusCode::kCancelled, "asked before");
  for (const std::vector<float>& gradient : rank.values()) {
    EXPECT_EQ(gradient, std::vector<float>(kCount));
  }
}

TEST(Averaging, BucketsAreAveragedBeforeTheOthersAreThere) {
  const auto world = *make_local_communicators(1, members_named(2));
  on_each(world, [&](Communicator& communicator, int number) {
    Rank rank(communicator);
    for (size_t buffer = 0; buffer < 2; ++buffer) rank.compute(buffer, number);
    ASSERT_OK(rank.averaging.note(2, 1));
    rank.start(1);
    rank.averaging.go_on();
    rank.wait_for_buckets(2);
    EXPECT_FALSE(rank.averaging.is_intact());
    rank.compute(2, number);
    ASSERT_OK(rank.end(1));
    EXPECT_EQ(rank.averaging.buckets_averaged(), 3U);
  });
}

TEST(Averaging, AnOperationThatWaitsForOthersIsWaitedForAsLongAsOneSays) {
  const auto world = *make_local_communicators(1, members_named(2));
  Rank rank(*world[0]);
  ASSERT_OK(rank.averaging.note(1, 1));
  rank.start(1);
  rank.averaging.go_on();
  // The task may not have begun, and is held back then. A running operation continues.
  const bool has_begun = !rank.averaging.pause(system_runtime().now());
  Rank other(*world[1]);
  std::thread beside([&] { EXPECT_OK(other.end(1)); });
  if (has_begun) {
    EXPECT_TRUE(rank.averaging.pause(kNoDeadline));
  }
  EXPECT_OK(rank.end(1));
  beside.join();
}

// One rank is lost with its second bucket. All ranks have the sum of the first.
TEST(Averaging, AFailureInTheMiddleEndsTheStepAndNothingOfItIsLeft) {
  const auto world = *make_local_communicators(1, members_named(2));
  const auto next = *make_local_communicators(2, members_named(2));
  on_each(world, [&](Communicator& communicator, int number) {
    FailingLate failing(communicator, number == 0 ? 2 : 100);
    Rank rank(failing);
    for (size_t buffer = 0; buffer < 3; ++buffer) rank.compute(buffer, number);
    ASSERT_OK(rank.averaging.note(3, 4));
    rank.start(4);
    rank.averaging.go_on();
    rank.wait_for_buckets(1);
    if (number == 0) {
      EXPECT_FAILS(rank.end(4), StatusCode::kPeerLost, "to be lost here");
      communicator.abort(Status(StatusCode::kCancelled, "the world changes"));
    } else {
      EXPECT_FALSE(rank.end(4).ok());
    }
    EXPECT_FALSE(rank.averaging.is_intact());
    rank.averaging.drop();
    EXPECT_TRUE(rank.averaging.is_intact());
    EXPECT_FALSE(rank.averaging.has_gathered());
    EXPECT_EQ(rank.averaging.noted_samples(), std::nullopt);
    rank.use(*next[static_cast<size_t>(number)]);
    for (size_t buffer = 0; buffer < 3; ++buffer) rank.compute(buffer, number);
    EXPECT_OK(rank.end(4));
  });
}

TEST(Averaging, GradientsAreIntactWhileOnlyMessagesHaveFailed) {
  const auto world = *make_local_communicators(1, members_named(1));
  FailingLate failing(*world[0], 0);
  Rank rank(failing);
  rank.compute(0, 1);
  const auto given = rank.values();
  ASSERT_OK(rank.averaging.note(3, 4));
  rank.start(4);
  rank.averaging.go_on();
  EXPECT_EQ(rank.end(4).code(), StatusCode::kPeerLost);
  EXPECT_TRUE(rank.averaging.is_intact());
  EXPECT_EQ(rank.values(), given);
}

TEST(Averaging, NothingIsGivenOnceTheMembersLifeIsOver) {
  const auto world = *make_local_communicators(1, members_named(1));
  Rank rank(*world[0]);
  rank.standing = Status(StatusCode::kCancelled, "fenced");
  ASSERT_OK(rank.averaging.note(3, 4));
  rank.start(4);
  rank.averaging.go_on();
  EXPECT_EQ(rank.end(4).code(), StatusCode::kCancelled);
  EXPECT_TRUE(rank.averaging.is_intact());
}

TEST(Averaging, WithoutSamplesNothingIsAddedUp) {
  const auto world = *make_local_communicators(1, members_named(2));
  on_each(world, [&](Communicator& communicator, int number) {
    FailingLate failing(communicator, 1);  // messages only
    Rank rank(failing);
    rank.compute(0, number);
    ASSERT_OK(rank.averaging.note(3, 0));
    rank.start(0);
    rank.averaging.go_on();
    ASSERT_OK(rank.end(0));
    EXPECT_TRUE(rank.averaging.is_intact());
  });
}

TEST(Averaging, OneNumberOfSamplesAndNoMoreGradientsThanThereAre) {
  const auto world = *make_local_communicators(1, members_named(1));
  Rank rank(*world[0]);
  EXPECT_FAILS(rank.averaging.note(4, 1), StatusCode::kInvalidArgument, "there are 3");
  EXPECT_EQ(rank.averaging.noted_samples(), std::nullopt);
  ASSERT_OK(rank.averaging.note(1, 1));
  EXPECT_FAILS(rank.averaging.note(2, 3), StatusCode::kInvalidArgument, "begun with 1");
  EXPECT_EQ(rank.averaging.noted_samples(), 1U);
}

TEST(Averaging, EndsWhileNobodyComes) {
  const auto world = *make_local_communicators(1, members_named(2));
  Rank rank(*world[0]);
  ASSERT_OK(rank.averaging.note(3, 1));
  rank.start(1);
  rank.averaging.go_on();
  world[0]->abort(Status(StatusCode::kCancelled, "the session ends"));
}

}  // namespace
}  // namespace ffdl::elastic
