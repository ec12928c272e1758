#include "comm/gpu/nccl/plan.h"

#include <gtest/gtest.h>

#include <string>

namespace ffdl::comm {
namespace {

using PastState = NcclPast::State;

constexpr uint32_t kAll = NcclPast::kGrow | NcclPast::kShrink;

NcclPast newcomer(uint32_t calls = kAll) { return {.calls = calls}; }

NcclPast member(int rank, int size, PastState state = PastState::kQuiet, uint32_t calls = kAll) {
  return {.generation = 7, .rank = rank, .size = size, .state = state, .calls = calls};
}

TEST(NcclPlan, WhatNcclNumbersAsWeDoIsGrownOrShrunk) {
  const struct {
    std::vector<NcclPast> ranks;
    std::vector<int> excluded;  // none: it grows
    bool follows_failure = false;
  } cases[] = {
      {{member(0, 2), member(1, 2), newcomer()}, {}},
      {{member(0, 2), member(1, 2), newcomer(), newcomer()}, {}},
      {{member(0, 3), member(1, 3)}, {2}},
      {{member(1, 3), member(2, 3)}, {0}},
      {{member(0, 5), member(3, 5)}, {1, 2, 4}},
      {{member(0, 3, PastState::kRevoked), member(2, 3)}, {1}, true},
      {{member(0, 3), member(2, 3, PastState::kRevoked)}, {1}, true},
      {{member(0, 2, PastState::kQuiet, NcclPast::kGrow), member(1, 2), newcomer(NcclPast::kGrow)},
       {}},
      {{member(0, 3, PastState::kQuiet, NcclPast::kShrink), member(1, 3)}, {2}},
  };
  for (const auto& one : cases) {
    const NcclPlan plan = plan_nccl_world(one.ranks);
    EXPECT_EQ(plan.way, one.excluded.empty() ? NcclPlan::Way::kGrow : NcclPlan::Way::kShrink)
        << plan.reason;
    EXPECT_EQ(plan.excluded, one.excluded);
    EXPECT_EQ(plan.follows_failure, one.follows_failure);
  }
}

TEST(NcclPlan, WhateverElseItIsAllConnectAnewAndSayWhy) {
  NcclPast elsewhere = member(1, 3);
  elsewhere.generation = 8;
  const struct {
    std::vector<NcclPast> ranks;
    std::string reason;
  } cases[] = {
      {{newcomer(), newcomer()}, "no member was in a previous world"},
      {{newcomer()}, "no member was in a previous world"},
      {{member(0, 3), elsewhere}, "the members are from several worlds"},
      {{member(0, 3), member(1, 2)}, "the members are from several worlds"},
      {{member(0, 3), member(1, 3, PastState::kGone)}, "of the previous world left"},
      {{member(0, 2), member(1, 2, PastState::kGone), newcomer()}, "previous world left"},
      {{member(0, 1), newcomer()}, "one rank has no connections"},
      {{member(1, 3)}, "one rank has no connections"},
      {{member(0, 3), member(1, 3), newcomer()}, "some members left and others joined"},
      {{member(0, 2), member(1, 2)}, "the members are the same"},
      {{member(2, 3), member(0, 3)}, "the members have another order"},
      {{member(1, 3), member(1, 3)}, "the members have another order"},
      {{newcomer(), member(0, 2), member(1, 2)}, "a member has another rank"},
      {{member(1, 2), member(0, 2), newcomer()}, "a member has another rank"},
      {{member(0, 2, PastState::kRevoked), member(1, 2), newcomer()},
       "a world that has failed cannot be grown"},
      {{member(0, 2), member(1, 2), newcomer(NcclPast::kShrink)}, "cannot grow a world"},
      {{member(0, 3), member(1, 3, PastState::kQuiet, NcclPast::kGrow)}, "cannot shrink a world"},
  };
  for (const auto& one : cases) {
    const NcclPlan plan = plan_nccl_world(one.ranks);
    EXPECT_EQ(plan.way, NcclPlan::Way::kFresh) << one.reason;
    EXPECT_NE(std::string(plan.reason).find(one.reason), std::string::npos) << plan.reason;
  }
}

// All ranks decide by the same table only, whatever its order of arrival. The planned ranks must
// equal NCCL's own numbering.
TEST(NcclPlan, RanksAreThoseThatNcclGives) {
  for (int size = 2; size <= 5; ++size) {
    for (int stay = 1; stay < 1 << size; ++stay) {
      std::vector<NcclPast> ranks;
      for (int rank = 0; rank < size; ++rank) {
        if ((stay >> rank & 1) != 0) ranks.push_back(member(rank, size));
      }
      const NcclPlan plan = plan_nccl_world(ranks);
      if (plan.way != NcclPlan::Way::kShrink) {
        EXPECT_TRUE(ranks.size() == 1 || std::ssize(ranks) == size);
        continue;
      }
      EXPECT_EQ(std::ssize(ranks) + std::ssize(plan.excluded), size);
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        int fewer = 0;
        for (const int out : plan.excluded) fewer += out < ranks[rank].rank;
        EXPECT_EQ(ranks[rank].rank - fewer, static_cast<int>(rank));
      }
    }
  }
}

nccl::Code revoke(nccl::Comm, int) { return nccl::Code::kSuccess; }
nccl::Code shrink(nccl::Comm, int*, int, nccl::Comm*, nccl::Config*, int) {
  return nccl::Code::kSuccess;
}
nccl::Code get_grow_id(nccl::Comm, nccl::UniqueId*) { return nccl::Code::kSuccess; }
nccl::Code grow(nccl::Comm, int, const nccl::UniqueId*, int, nccl::Comm*, nccl::Config*) {
  return nccl::Code::kSuccess;
}

TEST(NcclPlan, ALibraryCanDoWhatAllItsCallsAreThereFor) {
  nccl::Functions library{};
  library.shrink = shrink;
  library.grow = grow;
  EXPECT_EQ(nccl_calls(library), 0U) << "it could not end what is half made";
  library.revoke = revoke;
  EXPECT_EQ(nccl_calls(library), NcclPast::kShrink);
  library.get_grow_id = get_grow_id;
  EXPECT_EQ(nccl_calls(library), kAll);
}

}  // namespace
}  // namespace ffdl::comm
