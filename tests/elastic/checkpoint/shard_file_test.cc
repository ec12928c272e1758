#include "elastic/checkpoint/shard_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/memory_files.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using testing::MemoryFiles;

class ShardFile : public ::testing::Test {
 protected:
  ShardFile() : values_(600'000) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i);
    EXPECT_OK(files_.make_folder("/f"));
    const std::vector<ShardPart> parts = {{"a", DType::kFloat32, values_.size(), values_.data()},
                                          {"none", DType::kFloat64, 0, nullptr},
                                          {"b", DType::kInt8, 5, "bytes"}};
    facts_ = write_shard(files_, "/f", "s", parts).value();
  }
  // Reads everything and returns the first failure.
  Status read() {
    FFDL_ASSIGN_OR_RETURN(const ShardReader shard, ShardReader::open(files_, "/f", facts_));
    for (const TensorEntry& tensor : shard.tensors()) {
      std::vector<std::byte> bytes(tensor.end - tensor.begin);
      FFDL_RETURN_IF_ERROR(shard.read(tensor, bytes));
      if (tensor.name == "a") {
        EXPECT_EQ(std::memcmp(bytes.data(), values_.data(), bytes.size()), 0);
      }
    }
    return {};
  }

  MemoryFiles files_;
  std::vector<float> values_;
  ShardFacts facts_;
};

TEST_F(ShardFile, ItIsWrittenAndReadAgain) {
  EXPECT_OK(read());
  EXPECT_EQ(files_.paths(), std::vector<std::string>{"/f/s"});
  EXPECT_EQ(files_.bytes_of("/f/s").size(), facts_.bytes);
  EXPECT_EQ(look_at_shard(files_, "/f", "s").value(), facts_);
  ASSERT_OK_AND_ASSIGN(const ShardReader shard, ShardReader::open(files_, "/f", facts_));
  EXPECT_NE(shard.find("none"), nullptr);
  EXPECT_EQ(shard.find("c"), nullptr);
}

TEST_F(ShardFile, EachChangedByteIsFound) {
  const std::string whole = files_.bytes_of("/f/s");
  const size_t head = whole.size() - 600'000 * sizeof(float) - 5;
  std::vector<size_t> places;
  for (size_t i = 0; i < head; i += 3) places.push_back(i);
  for (size_t i = head; i < whole.size(); i += 100'003) places.push_back(i);
  places.push_back(whole.size() - 1);
  for (const size_t place : places) {
    files_.bytes_of("/f/s")[place] = static_cast<char>(whole[place] ^ 1);
    const Status seen = read();
    EXPECT_EQ(seen.code(), StatusCode::kCorrupt) << place;
    EXPECT_NE(seen.message().find("read checkpoint file '/f/s': byte "), seen.message().npos)
        << seen.message();
    files_.bytes_of("/f/s")[place] = whole[place];
  }
  EXPECT_OK(read());
}

TEST_F(ShardFile, AnotherLengthIsFound) {
  const std::string whole = files_.bytes_of("/f/s");
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, whole.size() - 1}) {
    files_.bytes_of("/f/s") = whole.substr(0, size);
    EXPECT_FAILS(read(), StatusCode::kCorrupt, "it ends there, and had");
    EXPECT_FALSE(look_at_shard(files_, "/f", "s").ok()) << size;
  }
  files_.bytes_of("/f/s") = whole + "x";
  EXPECT_FAILS(read(), StatusCode::kCorrupt, "it ends there, and had");
}

}  // namespace
}  // namespace ffdl::elastic
