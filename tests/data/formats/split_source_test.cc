#include <gtest/gtest.h>

#include <set>

#include "data/numbered_source.h"
#include "data/source_text.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using testing::all_of;
using testing::number_of;
using testing::NumberedSource;

std::vector<uint64_t> numbers_of(const DataSource& source, const std::vector<uint64_t>& indices) {
  SampleBatch batch;
  EXPECT_OK(source.read(indices, batch));
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < batch.size(); ++i) numbers.push_back(number_of(batch[i]));
  return numbers;
}

TEST(SplitSource, EachSampleIsInOnePart) {
  for (const uint64_t samples : {10, 999, 1000, 1001, 12'345}) {
    const NumberedSource whole(samples);
    ASSERT_OK_AND_ASSIGN(const auto parts, split_source(whole, {0.8, 0.1, 0.1}, 3));
    ASSERT_EQ(parts.size(), 3U);
    std::multiset<uint64_t> seen;
    for (const auto& part : parts) {
      const auto numbers = numbers_of(*part, all_of(*part));
      seen.insert(numbers.begin(), numbers.end());
    }
    ASSERT_EQ(seen.size(), samples);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), samples);
    EXPECT_EQ(*seen.rbegin(), samples - 1);
    EXPECT_NEAR(static_cast<double>(parts[1]->samples()), 0.1 * static_cast<double>(samples), 1.5);
    EXPECT_EQ(parts[0]->format().dtype, whole.format().dtype);
  }
}

TEST(SplitSource, ThePartsFollowFromTheSeedAlone) {
  const NumberedSource whole(5000);
  const auto part_of = [&](uint64_t seed) {
    const auto parts = split_source(whole, {9, 1}, seed);
    EXPECT_OK(parts.status());
    return numbers_of(*(*parts)[1], all_of(*(*parts)[1]));
  };
  const std::vector<uint64_t> part = part_of(1);
  EXPECT_EQ(part_of(1), part);
  EXPECT_NE(part_of(2), part);
  // The part is not every tenth sample, since a periodic data set would be split by its pattern.
  std::set<uint64_t> last_digits;
  for (const uint64_t number : part) last_digits.insert(number % 10);
  EXPECT_EQ(last_digits.size(), 10U);
}

TEST(SplitSource, GivesInTheOrderAskedFor) {
  const NumberedSource whole(3000);
  ASSERT_OK_AND_ASSIGN(const auto parts, split_source(whole, {1, 1}));
  const auto all = numbers_of(*parts[1], all_of(*parts[1]));
  EXPECT_EQ(numbers_of(*parts[1], {1400, 3, 3, 700}),
            (std::vector<uint64_t>{all[1400], all[3], all[3], all[700]}));
}

TEST(SplitSource, SaysWhatItCannotDo) {
  const NumberedSource whole(3);
  EXPECT_FAILS(split_source(whole, {}), StatusCode::kInvalidArgument,
               "split a data source: 0 weights");
  EXPECT_FAILS(split_source(whole, {0.99, 0.01}), StatusCode::kInvalidArgument,
               "part 1 of 2 has none of the 3 samples");
  ASSERT_OK_AND_ASSIGN(const auto parts, split_source(whole, {2, 1}));
  SampleBatch batch;
  EXPECT_FAILS(parts[1]->read(std::vector<uint64_t>{1}, batch), StatusCode::kInvalidArgument,
               "read sample 1 of part 1: it has 1");
}

}  // namespace
}  // namespace ffdl
