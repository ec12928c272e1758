#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "data/numbered_source.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::NumberedSource;
using testing::read_texts;
using Sources = std::vector<std::unique_ptr<DataSource>>;

class MixSources : public ::testing::Test {
 protected:
  // Returns samples "a0", "a1" and so on.
  std::unique_ptr<DataSource> lines(char name, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("{}{}\n", name, i);
    auto source = open_lines({folder_.write(std::string(1, name), text)});
    EXPECT_OK(source.status());
    return std::move(source).value();
  }
  template <class... Each>
  static Sources of(Each... each) {
    Sources sources;
    (sources.push_back(std::move(each)), ...);
    return sources;
  }

  TempFolder folder_;
};

// Every run of samples has the weights' share of each source, wherever it begins.
TEST_F(MixSources, AnyStretchHasThemByWeight) {
  ASSERT_OK_AND_ASSIGN(const auto mix,
                       mix_sources(of(lines('a', 300), lines('b', 50)), {0.75, 0.25}));
  const auto texts = read_texts(*mix);
  for (size_t begin = 0; begin + 40 <= texts.size(); begin += 13) {
    int of_b = 0;
    for (size_t i = begin; i < begin + 40; ++i) of_b += texts[i][0] == 'b' ? 1 : 0;
    ASSERT_NEAR(of_b, 10, 1) << begin;
  }
}

// 'a' is used once, 'b' twice, in its own order each time.
TEST_F(MixSources, NothingIsLeftOut) {
  ASSERT_OK_AND_ASSIGN(const auto mix,
                       mix_sources(of(lines('a', 300), lines('b', 50)), {0.75, 0.25}));
  EXPECT_EQ(mix->samples(), 400U);
  std::map<std::string, int> used;
  std::string order_of_b;
  for (const std::string& text : read_texts(*mix)) {
    ++used[text];
    if (text[0] == 'b' && order_of_b.size() < 12) order_of_b += text;
  }
  ASSERT_EQ(used.size(), 350U);
  EXPECT_EQ(order_of_b, "b0b1b2b3b4b5");
  for (const auto& [text, times] : used) {
    ASSERT_GE(times, 1) << text;
    ASSERT_LE(times, text[0] == 'a' ? 1 : 2) << text;
  }
}

TEST_F(MixSources, GivesInTheOrderAskedForWithOneReadOfEach) {
  auto first = std::make_unique<NumberedSource>(100);
  auto second = std::make_unique<NumberedSource>(100);
  const NumberedSource& a = *first;
  NumberedSource& b = *second;
  ASSERT_OK_AND_ASSIGN(const auto mix,
                       mix_sources(of(std::move(first), std::move(second)), {1, 1}));
  b.skips_at = 2;
  SampleBatch batch;
  ASSERT_OK(mix->read(std::vector<uint64_t>{10}, batch));
  ASSERT_OK(mix->read(std::vector<uint64_t>{9, 4, 5, 4, 1}, batch));
  ASSERT_EQ(batch.size(), 6U);
  EXPECT_EQ(testing::number_of(batch[0]), 5U);
  EXPECT_EQ(testing::number_of(batch[1]), 4U);
  EXPECT_EQ(testing::number_of(batch[2]), 2U);
  EXPECT_TRUE(batch.is_skipped(3));
  EXPECT_EQ(testing::number_of(batch[4]), 2U);
  EXPECT_EQ(testing::number_of(batch[5]), 0U);
  EXPECT_EQ(a.reads, 2);
  EXPECT_EQ(b.reads, 1);
}

// One of the sources is a mixture too.
TEST_F(MixSources, ReadsIntoMemoryOfTheCaller) {
  ASSERT_OK_AND_ASSIGN(auto inner, mix_sources(of(lines('a', 30), lines('b', 15)), {2, 1}));
  ASSERT_OK_AND_ASSIGN(const auto mix, mix_sources(of(lines('c', 20), std::move(inner)), {1, 1}));
  const std::vector<uint64_t> indices = {40, 3, 2, 2, 17, 16, 0};
  EXPECT_EQ(testing::read_texts_into(*mix, indices).texts, read_texts(*mix, indices));
}

TEST_F(MixSources, SaysWhatItCannotDo) {
  EXPECT_FAILS(mix_sources({}, {}), StatusCode::kInvalidArgument, "0 sources and 0 weights");
  EXPECT_FAILS(mix_sources(of(lines('a', 3)), {1, 1}), StatusCode::kInvalidArgument,
               "1 sources and 2 weights");
  EXPECT_FAILS(mix_sources(of(lines('a', 3), lines('b', 3)), {1, 0}), StatusCode::kInvalidArgument,
               "mix data sources: 2 weights were given");
  EXPECT_FAILS(mix_sources(of(lines('a', 3), std::make_unique<NumberedSource>(3)), {1, 1}),
               StatusCode::kInvalidArgument,
               "mix data sources: samples of source 1 are 8 bytes of '<u8'");
  EXPECT_FAILS(mix_sources(of(std::make_unique<NumberedSource>(0)), {1}),
               StatusCode::kInvalidArgument, "source 0 has no samples");
  ASSERT_OK_AND_ASSIGN(const auto mix, mix_sources(of(lines('a', 3)), {1}));
  SampleBatch batch;
  EXPECT_FAILS(mix->read(std::vector<uint64_t>{3}, batch), StatusCode::kInvalidArgument,
               "read sample 3 of a mixture: it has 3");
}

}  // namespace
}  // namespace ffdl
