#include "ps/learner/started_push.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace ffdl::ps {
namespace {

std::vector<uint64_t> rows_of(const RowGradient& table) {
  return {table.rows.begin(), table.rows.end()};
}

TEST(StartedPush, CopiesAllButTheValues) {
  std::vector<uint64_t> first = {3, 1};
  std::vector<uint64_t> second = {7};
  const std::vector<float> values(6, 1.0F);
  std::vector<SampleRange> samples = {{.begin = 2, .end = 3}};
  StartedPush push;
  {
    const std::vector<RowGradient> tables = {
        {.table = 0, .row_size = 2, .rows = first, .values = std::span(values).first(4)},
        {.table = 50, .row_size = 1, .rows = second, .values = std::span(values).first(1)}};
    const std::vector<PartGradient> parts = {{.begin = 90, .values = std::span(values).first(1)}};
    push.begin(Gradient::sparse(tables, parts), samples, 5);
  }
  first = {0, 0};
  second = {0};
  samples.clear();
  EXPECT_EQ(push.version(), 5U);
  ASSERT_EQ(push.samples().size(), 1U);
  EXPECT_EQ(push.samples()[0], (SampleRange{.begin = 2, .end = 3}));
  ASSERT_EQ(push.gradient().tables().size(), 2U);
  EXPECT_EQ(rows_of(push.gradient().tables()[0]), (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(rows_of(push.gradient().tables()[1]), std::vector<uint64_t>{7});
  EXPECT_EQ(push.gradient().tables()[1].values.data(), values.data());
  EXPECT_EQ(push.gradient().parts()[0].begin, 90U);
}

TEST(StartedPush, ValuesMoveToOneArray) {
  const std::vector<float> landed = {1, 2, 3, 4, 5};
  const auto* const bytes = reinterpret_cast<const std::byte*>(landed.data());
  const uint64_t rows[] = {4};
  const std::vector<float> values(4);
  const RowGradient table{
      .table = 0, .row_size = 3, .rows = rows, .values = std::span(values).first(3)};
  const PartGradient part{.begin = 40, .values = std::span(values).first(2)};
  StartedPush push;
  push.begin(Gradient::sparse({&table, 1}, {&part, 1}), {}, 0);
  push.move_values_to(bytes);
  EXPECT_EQ(push.gradient().tables()[0].values.data(), landed.data());
  EXPECT_EQ(push.gradient().parts()[0].values.data(), landed.data() + 3);
  EXPECT_EQ(push.gradient().parts()[0].values.size(), 2U);

  push.begin(values, {}, 0);
  push.move_values_to(bytes);
  EXPECT_EQ(push.gradient().values(), landed.data());
  EXPECT_EQ(push.gradient().count(), 4U);
  EXPECT_EQ(push.gradient().type(), DType::kFloat32);
  EXPECT_TRUE(push.gradient().tables().empty());

  const std::vector<uint16_t> halves(3);
  push.begin(Gradient::dense(DType::kFloat16, halves), {}, 0);
  push.move_values_to(bytes);
  EXPECT_EQ(push.gradient().values(), landed.data());
  EXPECT_EQ(push.gradient().type(), DType::kFloat16);
}

}  // namespace
}  // namespace ffdl::ps
