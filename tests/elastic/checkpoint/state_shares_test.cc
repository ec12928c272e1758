#include "elastic/checkpoint/state_shares.h"

#include <gtest/gtest.h>

#include <random>

#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

const std::vector<TensorFacts> kTensors = {{"a", DType::kFloat32, 1000},
                                           {"empty", DType::kFloat32, 0},
                                           {"b", DType::kInt8, 1},
                                           {"c", DType::kFloat64, 777}};

TEST(Shares, TogetherTheyHaveEachElementOnce) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::vector<Piece> all;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Piece& piece : share_of(kTensors, rank, ranks)) {
        EXPECT_EQ(piece.begin % 64, 0U);
        all.push_back(piece);
      }
    }
    EXPECT_TRUE(are_whole(all, kTensors)) << ranks;
  }
}

TEST(Shares, TheyAreEven) {
  const std::vector<TensorFacts> one = {{"w", DType::kFloat32, 1'000'000}};
  for (int rank = 0; rank < 3; ++rank) {
    const auto share = share_of(one, rank, 3);
    ASSERT_EQ(share.size(), 1U);
    EXPECT_NEAR(static_cast<double>(share[0].count), 1e6 / 3, 64);
  }
}

TEST(Shares, OneMemberHasWholeTensors) {
  const std::vector<Piece> all = {{0, 0, 1000}, {2, 0, 1}, {3, 0, 777}};
  EXPECT_EQ(share_of(kTensors, 0, 1), all);
}

TEST(Shares, WhatIsMissingOrTwiceIsSeen) {
  const std::vector<Piece> whole = {{0, 0, 64}, {0, 64, 936}, {2, 0, 1}, {3, 0, 777}};
  std::vector<Piece> pieces = whole;
  EXPECT_TRUE(are_whole(pieces, kTensors));
  for (size_t i = 0; i < whole.size(); ++i) {
    pieces = whole;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(are_whole(pieces, kTensors)) << i;
    pieces = whole;
    pieces.push_back(whole[i]);
    EXPECT_FALSE(are_whole(pieces, kTensors)) << i;
  }
}

TEST(Shares, ANameTellsThePiece) {
  for (const Piece& piece : {Piece{0, 0, 1000}, Piece{0, 64, 64}, Piece{3, 704, 73}}) {
    EXPECT_EQ(piece_of(name_of(piece, kTensors[piece.tensor]), kTensors), piece);
  }
  EXPECT_EQ(name_of({0, 64, 64}, kTensors[0]), "a[64:128]");
  for (const char* name : {"", "d", "a[", "a[]", "a[1]", "a[1:]", "a[:2]", "a[2:1]", "a[0:1001]",
                           "a[0:1:2]", "a[-1:2]", "[0:1]", "a[0:18446744073709551616]", "a[1:1]"}) {
    EXPECT_FALSE(piece_of(name, kTensors)) << name;
  }
}

TEST(Shares, NamesAreChecked) {
  float value = 0;
  const std::vector<Buffer> buffers = {{&value, 1}, {&value, 1}};
  ASSERT_OK_AND_ASSIGN(const auto plain, describe_tensors(buffers, {}));
  EXPECT_EQ(plain[1].name, "state.1");
  const auto fails = [&](std::vector<std::string> names, const char* why) {
    EXPECT_FAILS(describe_tensors(buffers, names), StatusCode::kInvalidArgument, why);
  };
  fails({"a"}, "1 names for 2 tensors");
  fails({"a", "a"}, "'a': the name is invalid, or another tensor has it");
  fails({"a", ""}, "''");
  fails({"a", "b c"}, "'b c'");
  fails({"a", "ffdl.note"}, "'ffdl.note'");
  fails({"a", "__metadata__"}, "'__metadata__'");
  fails({"a", "b[0:1]"}, "'b[0:1]'");
}

}  // namespace
}  // namespace ffdl::elastic
