#include "comm/operation/collective_blocks.h"

#include <gtest/gtest.h>

namespace ffdl::comm {
namespace {

using Parts = std::vector<Part>;

TEST(Parts, SayWhatEachCollectiveIs) {
  EXPECT_EQ(parts_of(Collective::kAllReduce, 0, 1, 3), (Parts{{0, kReduced, 0}}));
  EXPECT_EQ(parts_of(Collective::kReduceScatter, 0, 1, 3), (Parts{{0, kReduced, 1}}));
  EXPECT_EQ(parts_of(Collective::kReduce, 1, 1, 3), (Parts{{0, kReduced, 0}}));
  EXPECT_EQ(parts_of(Collective::kReduce, 1, 0, 3), Parts{});
  EXPECT_EQ(parts_of(Collective::kAllGather, 0, 1, 3), (Parts{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}}));
  EXPECT_EQ(parts_of(Collective::kGather, 1, 1, 3), (Parts{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}}));
  EXPECT_EQ(parts_of(Collective::kGather, 1, 2, 3), Parts{});
  EXPECT_EQ(parts_of(Collective::kBroadcast, 2, 0, 3), (Parts{{0, 2, 0}}));
  EXPECT_EQ(parts_of(Collective::kScatter, 2, 1, 3), (Parts{{0, 2, 1}}));
  EXPECT_EQ(parts_of(Collective::kAllToAll, 0, 1, 3), (Parts{{0, 0, 1}, {1, 1, 1}, {2, 2, 1}}));
  EXPECT_EQ(parts_of(Collective::kBarrier, 0, 1, 3), Parts{});
  EXPECT_EQ(parts_of(Collective::kSend, 2, 1, 3), Parts{});
  EXPECT_EQ(parts_of(Collective::kRecv, 2, 1, 3), (Parts{{0, 2, 0}}));
}

// Every part is within the data of its source.
TEST(Parts, TakeOnlyWhatIsGiven) {
  for (int kind = 0; kind <= static_cast<int>(Collective::kBarrier); ++kind) {
    const auto collective = static_cast<Collective>(kind);
    for (int root = 0; root < 4; ++root) {
      for (int rank = 0; rank < 4; ++rank) {
        for (const Part& part : parts_of(collective, root, rank, 4)) {
          for (int source = 0; source < 4; ++source) {
            if (part.source != kReduced && part.source != source) continue;
            EXPECT_LT(part.in_block, in_blocks(collective, root, source, 4)) << kind;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::comm
