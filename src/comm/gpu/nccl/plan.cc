#include "comm/gpu/nccl/plan.h"

#include <algorithm>

namespace ffdl::comm {
namespace {

using State = NcclPast::State;

bool is_member(const NcclPast& rank) { return rank.state != State::kNone; }

NcclPlan anew(std::string_view reason) { return {.reason = reason}; }

NcclPlan plan_grown(std::span<const NcclPast> ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const NcclPast& past = ranks[rank];
    if ((past.calls & NcclPast::kGrow) == 0) return anew("this NCCL cannot grow a world");
    if (!is_member(past)) continue;
    if (past.rank != static_cast<int32_t>(rank)) return anew("a member has another rank");
    if (past.state == State::kRevoked) return anew("a world that has failed cannot be grown");
  }
  return {.way = NcclPlan::Way::kGrow};
}

// Requires members of the world before only: all of them, or some.
NcclPlan plan_shrunk(std::span<const NcclPast> ranks) {
  NcclPlan plan = {.way = NcclPlan::Way::kShrink};
  int32_t next = 0;  // of the world before
  for (const NcclPast& past : ranks) {
    if ((past.calls & NcclPast::kShrink) == 0) return anew("this NCCL cannot shrink a world");
    if (past.rank < next) return anew("the members have another order");
    while (next < past.rank) plan.excluded.push_back(next++);
    ++next;
    if (past.state == State::kRevoked) plan.follows_failure = true;
  }
  while (next < ranks.front().size) plan.excluded.push_back(next++);
  return plan.excluded.empty() ? anew("the members are the same") : plan;
}

}  // namespace

uint32_t nccl_calls(const nccl::Functions& library) {
  if (library.revoke == nullptr) return 0;
  uint32_t calls = 0;
  if (library.grow != nullptr && library.get_grow_id != nullptr) calls |= NcclPast::kGrow;
  if (library.shrink != nullptr) calls |= NcclPast::kShrink;
  return calls;
}

NcclPlan plan_nccl_world(std::span<const NcclPast> ranks) {
  const auto first = std::ranges::find_if(ranks, is_member);
  if (first == ranks.end()) return anew("no member was in a previous world");
  int32_t members = 0;
  for (const NcclPast& past : ranks) {
    if (!is_member(past)) continue;
    ++members;
    if (past.generation != first->generation || past.size != first->size) {
      return anew("the members are from several worlds");
    }
    if (past.state == State::kGone)
      return anew("a member has no communicator of the previous world left");
  }
  // One rank has no connections. (NCCL has also failed to grow from one.)
  if (first->size == 1 || ranks.size() == 1) return anew("one rank has no connections to keep");
  const bool has_newcomers = std::ssize(ranks) > members;
  if (!has_newcomers) return plan_shrunk(ranks);
  if (members < first->size) return anew("some members left and others joined");
  return plan_grown(ranks);
}

}  // namespace ffdl::comm
