#include "data/formats/read_all.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/counted_memory.h"
#include "data/source_text.h"

namespace ffdl {
namespace {

using testing::text_of;
using Texts = std::vector<std::string>;

// A user's source: sample i is the i-th text, "-" is corrupt, and `where` selects its memory.
class TextSource final : public DataSource {
 public:
  enum class Where { kItsOwn, kAllocated, kPlaced, kPlacedAtOnce };

  explicit TextSource(Texts texts, Where where = Where::kItsOwn, uint64_t bytes = 0)
      : texts_(std::move(texts)), where_(where), bytes_(bytes) {}

  uint64_t samples() const override { return texts_.size(); }
  SampleFormat format() const override { return {.bytes = bytes_, .is_fixed = bytes_ > 0}; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    ++reads;
    std::vector<std::span<std::byte>> placed;
    for (const uint64_t i : indices) {
      if (where_ == Where::kPlacedAtOnce) placed.push_back(batch.place(texts_[i].size()));
    }
    for (size_t n = 0; n < indices.size(); ++n) {
      const std::string& text = texts_[indices[n]];
      const std::span<const std::byte> own = std::as_bytes(std::span(text));
      if (text == "-") {
        batch.skip();
      } else if (where_ == Where::kItsOwn) {
        batch.add(own);
      } else {
        const auto to = where_ == Where::kAllocated ? batch.allocate(text.size())
                        : where_ == Where::kPlaced  ? batch.place(text.size())
                                                    : placed[n];
        std::memcpy(to.data(), own.data(), own.size());
        batch.add(to);
      }
    }
    return {};
  }

  mutable int reads = 0;

 private:
  const Texts texts_;
  const Where where_;
  const uint64_t bytes_;
};

using Where = TextSource::Where;

TEST(ReadInto, WhereverASourceHasItsSamples) {
  for (const Where where :
       {Where::kItsOwn, Where::kAllocated, Where::kPlaced, Where::kPlacedAtOnce}) {
    const TextSource source({"one", "", "-", "three", "4"}, where);
    for (const size_t spare : {0, 1, 100}) {
      const auto found = testing::read_texts_into(source, {3, 2, 1, 0, 3, 4}, spare);
      EXPECT_EQ(found.texts, (Texts{"three", "(skipped)", "", "one", "three", "4"}));
      const bool is_straight = where == Where::kItsOwn || where == Where::kPlaced;
      EXPECT_TRUE(found.allocations == 0 || !is_straight);
    }
  }
}

TEST(ReadInto, TooLittleMemoryIsAnErrorThatSaysHowMuchIsNeeded) {
  constexpr auto kUntouched = std::byte{7};
  for (const Where where : {Where::kItsOwn, Where::kAllocated, Where::kPlaced}) {
    const TextSource source({"one", "three", "4"}, where);
    std::vector<std::byte> memory(9, kUntouched);
    SampleBatch batch;
    for (const size_t room : {0, 1, 3, 8}) {
      EXPECT_FAILS(
          source.read_into(std::vector<uint64_t>{0, 1, 2}, std::span(memory).first(room), batch),
          StatusCode::kInvalidArgument, "the samples have 9 bytes; give larger memory");
      for (size_t i = room; i < 9; ++i) EXPECT_EQ(memory[i], kUntouched);
    }
    ASSERT_OK_AND_ASSIGN(const auto all,
                         source.read_into(std::vector<uint64_t>{0, 1, 2}, memory, batch));
    EXPECT_EQ(text_of(all), "onethree4");
    ASSERT_OK_AND_ASSIGN(const auto none, source.read_into({}, {}, batch));
    EXPECT_TRUE(none.empty());
  }
}

TEST(ReadInto, WhereAllSamplesHaveOneSizeNothingIsReadInVain) {
  const TextSource source({"one", "two"}, Where::kItsOwn, 3);
  std::vector<std::byte> memory(5);
  SampleBatch batch;
  EXPECT_FAILS(source.read_into(std::vector<uint64_t>{0, 1}, memory, batch),
               StatusCode::kInvalidArgument,
               "read 2 samples into memory of 5 bytes: the samples have 6");
  EXPECT_EQ(source.reads, 0);
  ASSERT_OK(source.read_into(std::vector<uint64_t>{1}, memory, batch));
  EXPECT_EQ(text_of(batch[0]), "two");
}

TEST(ReadInto, ABatchMayBeUsedOtherwiseAfterwards) {
  const TextSource source({"one", "two"}, Where::kPlaced);
  std::vector<std::byte> memory(6);
  SampleBatch batch;
  ASSERT_OK(source.read_into(std::vector<uint64_t>{0}, memory, batch));
  ASSERT_OK(source.read(std::vector<uint64_t>{1}, batch));  // is added, in other memory
  EXPECT_EQ(testing::texts_of(batch), (Texts{"one", "two"}));
  EXPECT_EQ(batch[0].data(), memory.data());
  EXPECT_EQ(memory[3], std::byte{0});
  ASSERT_OK(source.read_into(std::vector<uint64_t>{1}, memory, batch));
  EXPECT_EQ(testing::texts_of(batch), Texts{"two"});
  EXPECT_EQ(batch[0].data(), memory.data());
}

// A user's source that omits a sample.
class ForgetfulSource final : public DataSource {
 public:
  uint64_t samples() const override { return 10; }
  SampleFormat format() const override { return {}; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    for (size_t i = 1; i < indices.size(); ++i) batch.add(batch.allocate(1));
    return {};
  }
};

TEST(ReadInto, ASourceMustGiveOneForEach) {
  const ForgetfulSource source;
  std::vector<std::byte> memory(10);
  SampleBatch batch;
  EXPECT_FAILS(source.read_into(std::vector<uint64_t>{1, 2, 3}, memory, batch),
               StatusCode::kInvalidArgument, "read 3 samples: the data source returned 2");
  batch.clear();
  EXPECT_FAILS(data::read_all(source, std::vector<uint64_t>{1, 2, 3}, batch),
               StatusCode::kInvalidArgument, "read 3 samples: the data source returned 2");
}

}  // namespace
}  // namespace ffdl
