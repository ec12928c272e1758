#include "data/ledger/data_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ffdl::data {
namespace {

std::vector<uint64_t> indices(const DataSet& data, const SampleRange& range) {
  std::vector<uint64_t> all;
  data.add_indices(range, all);
  return all;
}

TEST(DataSet, TheLastPartitionHasWhatIsLeft) {
  const DataSet data{.samples = 10, .partition_samples = 4};
  EXPECT_EQ(data.partitions(), 3U);
  EXPECT_EQ(data.samples_of(1), 4U);
  EXPECT_EQ(data.samples_of(2), 2U);
  EXPECT_EQ(data.use(2, 0), (SampleRange{2, 0, 2}));
  EXPECT_EQ(data.use(2, 3), (SampleRange{2, 6, 8})) << "positions go on counting";
  EXPECT_EQ((DataSet{.samples = 8, .partition_samples = 4}.partitions()), 2U);
  EXPECT_EQ((DataSet{.samples = 1, .partition_samples = 4}.samples_of(0)), 1U);
}

TEST(DataSet, KnowsWhichRangesItHas) {
  const DataSet data{.samples = 10, .partition_samples = 4};
  EXPECT_TRUE(data.has({1, 5, 8}));
  EXPECT_TRUE(data.has({2, 2, 4}));
  EXPECT_FALSE(data.has({1, 3, 5})) << "of two epochs";
  EXPECT_FALSE(data.has({1, 3, 3}));
  EXPECT_FALSE(data.has({1, 3, 2}));
  EXPECT_FALSE(data.has({3, 0, 1}));
}

TEST(DataSet, SoManySamplesNeedSoManyPartitionsAndOneAhead) {
  const DataSet data = {.samples = 100, .partition_samples = 10};
  for (const auto& [count, partitions] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {1, 2}, {10, 2}, {11, 3}, {25, 4}, {SampleLedger::kAll, 0}}) {
    EXPECT_EQ(data.partitions_for(count), partitions) << count;
  }
}

TEST(FrontOf, IsTheFirstSamplesInAsManyRangesAsMayBe) {
  const std::vector<SampleRange> all = {{4, 2, 5}, {1, 0, 10}, {7, 3, 4}};
  using Ranges = std::vector<SampleRange>;
  EXPECT_EQ(front_of(all, 0), Ranges{});
  EXPECT_EQ(front_of(all, 2), (Ranges{{4, 2, 4}}));
  EXPECT_EQ(front_of(all, 3), (Ranges{{4, 2, 5}}));
  EXPECT_EQ(front_of(all, 8), (Ranges{{4, 2, 5}, {1, 0, 5}}));
  EXPECT_EQ(front_of(all, SampleLedger::kAll), all);
  EXPECT_EQ(front_of(all, SampleLedger::kAll, 2), (Ranges{{4, 2, 5}, {1, 0, 10}}));
  EXPECT_EQ(front_of(all, 8, 1), (Ranges{{4, 2, 5}}));
  EXPECT_EQ(front_of({}, 8), Ranges{});
}

TEST(DataSet, EachEpochHasAnotherOrderOfAllPartitions) {
  DataSet data{.samples = 40, .partition_samples = 4, .seed = 1};
  const auto order = [&](uint64_t epoch) {
    std::vector<uint32_t> all;
    for (uint32_t place = 0; place < data.partitions(); ++place) {
      all.push_back(data.partition_at(place, epoch));
      EXPECT_EQ(data.place_of(all.back(), epoch), place);
    }
    return all;
  };
  const std::vector<uint32_t> sorted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_NE(order(0), order(1));
  EXPECT_TRUE(std::is_permutation(sorted.begin(), sorted.end(), order(0).begin()));
  EXPECT_TRUE(std::is_permutation(sorted.begin(), sorted.end(), order(1).begin()));
  const auto first = order(0);
  data.seed = 2;
  EXPECT_NE(order(0), first);
  data.shuffle = Shuffle::kNone;
  EXPECT_EQ(order(5), sorted);
}

// Computed separately from the definition in permutation.h: mix(mix(seed) + epoch) is the key of an
// epoch.
TEST(DataSet, TheOrderIsTheSameForEver) {
  const DataSet data{.samples = 50, .partition_samples = 10, .seed = 5};
  std::vector<uint32_t> order;
  for (uint64_t place = 0; place < 5; ++place) order.push_back(data.partition_at(place, 2));
  EXPECT_EQ(order, (std::vector<uint32_t>{2, 3, 1, 4, 0}));
}

TEST(DataSet, CountsTheSamplesOfTheFirstPartitionsOfAnEpoch) {
  const DataSet data{.samples = 10, .partition_samples = 4, .seed = 3};
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    uint64_t sum = 0;
    for (uint64_t place = 0; place < 3; ++place) {
      EXPECT_EQ(data.samples_before(place, epoch), sum);
      sum += data.samples_of(data.partition_at(place, epoch));
    }
    EXPECT_EQ(data.samples_before(3, epoch), 10U);
  }
}

TEST(DataSet, SamplesLieInTheirPartition) {
  DataSet data{.samples = 10, .partition_samples = 4};
  EXPECT_EQ(indices(data, {1, 0, 4}), (std::vector<uint64_t>{4, 5, 6, 7}));
  EXPECT_EQ(indices(data, {2, 7, 8}), (std::vector<uint64_t>{9}));

  data = {.samples = 300, .partition_samples = 100, .seed = 9, .shuffle = Shuffle::kSamples};
  const auto first = indices(data, data.use(1, 0));
  const auto second = indices(data, data.use(1, 1));
  EXPECT_NE(first, second) << "another order each epoch";
  auto sorted = second;
  std::sort(sorted.begin(), sorted.end());
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], 100 + i);
  EXPECT_EQ(indices(data, {1, 130, 140}),
            (std::vector<uint64_t>(second.begin() + 30, second.begin() + 40)))
      << "a part of it is in the same order";
}

// Returns the samples of each partition in an epoch.
std::vector<std::vector<uint64_t>> given(const DataSet& data, uint64_t epoch) {
  std::vector<std::vector<uint64_t>> all;
  for (uint32_t p = 0; p < data.partitions(); ++p) all.push_back(indices(data, data.use(p, epoch)));
  return all;
}

// Computed separately, from the definitions in data_set.h and permutation.h.
TEST(DataSet, WhatAPartitionIsGivenIsTheSameForEver) {
  using Given = std::vector<std::vector<uint64_t>>;
  DataSet data{.samples = 10, .partition_samples = 4, .seed = 3, .shuffle = Shuffle::kSamples};
  EXPECT_EQ(given(data, 1), (Given{{2, 0, 1, 3}, {5, 4, 7, 6}, {9, 8}}));

  // The windows have partitions 1, 4, 3 and 2, 0. Partition 4 is the short one, in the middle of
  // the first.
  data.samples = 18;
  data.window_partitions = 3;
  EXPECT_EQ(given(data, 1),
            (Given{{9, 0, 11, 10}, {16, 4, 12, 14}, {1, 8, 3, 2}, {7, 5, 17, 13}, {6, 15}}));
  // The windows have partitions 0, 3, 4 and 2, 1. The short partition is the last one there anyway.
  EXPECT_EQ(given(data, 0),
            (Given{{16, 13, 0, 17}, {7, 9, 6, 11}, {10, 5, 4, 8}, {2, 3, 15, 12}, {14, 1}}));
}

// Expects that the window at some positions of an epoch has each sample of its partitions once.
void expect_window_is_whole(const DataSet& data, uint64_t epoch, uint64_t first_place) {
  std::vector<uint64_t> due;
  std::vector<uint64_t> came;
  for (uint64_t i = 0; i < data.window_partitions; ++i) {
    if (first_place + i == data.partitions()) break;
    const uint32_t partition = data.partition_at(first_place + i, epoch);
    const uint64_t first = partition * data.partition_samples;
    for (uint64_t j = 0; j < data.samples_of(partition); ++j) due.push_back(first + j);
    data.add_indices(data.use(partition, epoch), came);
  }
  std::sort(due.begin(), due.end());
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, due) << data.samples << " samples in partitions of " << data.partition_samples
                       << ", window of " << data.window_partitions << " from " << first_place
                       << ", seed " << data.seed << ", epoch " << epoch;
}

TEST(DataSet, AWindowGivesEachOfItsSamplesOnceAndNoOthers) {
  for (uint64_t samples = 1; samples <= 40; ++samples) {
    for (const uint64_t partition_samples : {1, 2, 3, 5, 8}) {
      for (const uint64_t window : {2, 3, 4, 7, 100}) {
        const DataSet data{.samples = samples,
                           .partition_samples = partition_samples,
                           .seed = samples % 3,
                           .shuffle = Shuffle::kSamples,
                           .window_partitions = window};
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
          for (uint64_t place = 0; place < data.partitions(); place += window) {
            expect_window_is_whole(data, epoch, place);
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

// One window is short in some positions, and another contains the short partition.
TEST(DataSet, WindowsOfALargeDataSetAreWholeToo) {
  const DataSet data{.samples = 1'000'000'000,
                     .partition_samples = 4000,
                     .seed = 7,
                     .shuffle = Shuffle::kSamples,
                     .window_partitions = 30};
  const uint64_t epoch = 1'000'000;
  const uint64_t last = data.partitions() - 1;
  const uint64_t place = data.place_of(static_cast<uint32_t>(last), epoch);
  for (const uint64_t one : {uint64_t{0}, place, last}) {
    expect_window_is_whole(data, epoch, one / 30 * 30);
  }
  DataSet odd = data;
  odd.samples -= 1234;
  expect_window_is_whole(odd, epoch, place / 30 * 30);
}

TEST(DataSet, APieceHasItsShareOfEachPartitionOfItsWindow) {
  const DataSet data{.samples = 16 * 1000,
                     .partition_samples = 1000,
                     .seed = 2,
                     .shuffle = Shuffle::kSamples,
                     .window_partitions = 4};
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    const auto pieces = given(data, epoch);
    for (uint32_t p = 0; p < data.partitions(); ++p) {
      std::vector<uint64_t> of_each(data.partitions());
      for (const uint64_t index : pieces[p]) ++of_each[index / 1000];
      const uint64_t first = data.place_of(p, epoch) / 4 * 4;
      for (uint64_t place = first; place < first + 4; ++place) {
        EXPECT_NEAR(static_cast<double>(of_each[data.partition_at(place, epoch)]), 250, 80);
      }
    }
  }
}

TEST(DataSet, APartOfAPieceIsInTheSameOrder) {
  const DataSet data{.samples = 5000,
                     .partition_samples = 1300,
                     .seed = 4,
                     .shuffle = Shuffle::kSamples,
                     .window_partitions = 3};
  for (uint32_t p = 0; p < data.partitions(); ++p) {
    const SampleRange use = data.use(p, 2);
    const auto whole = indices(data, use);
    std::vector<uint64_t> parts;
    for (uint64_t at = use.begin; at < use.end; at += 77) {
      data.add_indices({p, at, std::min(at + 77, use.end)}, parts);
    }
    EXPECT_EQ(parts, whole);
  }
}

}  // namespace
}  // namespace ffdl::data
