#include "elastic/state/user_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

TEST(UserMemory, PiecesAreWholeElements) {
  std::vector<double> values(300'000);
  const Buffer buffer = {values.data(), values.size(), DType::kFloat64};
  const uint64_t most = base::kStatePieceBytes / sizeof(double);
  for (const auto& [begin, expected] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, most}, {1, most}, {300'000 - most, most}, {299'999, 1}, {300'000, 0}}) {
    const Buffer piece = cut_piece(buffer, begin);
    EXPECT_EQ(piece.data, values.data() + begin);
    EXPECT_EQ(piece.count, expected);
    EXPECT_EQ(piece.dtype, DType::kFloat64);
  }
}

TEST(UserMemory, ThatOfTheHostIsVisitedWhereItLies) {
  std::vector<float> large(700'000);
  std::vector<int8_t> small(3);
  const Buffer buffers[] = {
      {large.data(), large.size()}, {}, {small.data(), small.size(), DType::kInt8}};
  HostMemory memory;
  EXPECT_OK(memory.follow());
  std::vector<const void*> places;
  EXPECT_OK(memory.visit(buffers, Access::kWrite, [&](const Buffer& piece) -> Status {
    places.push_back(piece.data);
    return {};
  }));
  const uint64_t most = base::kStatePieceBytes / sizeof(float);
  EXPECT_EQ(places, (std::vector<const void*>{large.data(), large.data() + most,
                                              large.data() + 2 * most, small.data()}));
}

TEST(UserMemory, WhatABodyRefusesEndsTheVisit) {
  std::vector<float> values(4);
  const Buffer buffers[] = {{values.data(), 2}, {values.data() + 2, 2}};
  HostMemory memory;
  int calls = 0;
  EXPECT_FAILS(memory.visit(buffers, Access::kRead,
                            [&](const Buffer&) {
                              ++calls;
                              return Status(StatusCode::kPeerLost, "nobody takes it");
                            }),
               StatusCode::kPeerLost, "nobody takes it");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace ffdl::elastic
