#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/nccl_interface.h"

// How the ranks of a world connect their GPUs where some of them have a communicator of NCCL
// already: one decision, which all take alike from what each has told.
namespace ffdl::comm {

// What a rank has from the world before. Sent as it is.
struct NcclPast {
  enum class State : uint32_t {
    kNone,     // it comes new
    kQuiet,    // nothing runs there
    kRevoked,  // what ran was ended, as it failed
    kGone,     // it was ended itself, or never was
  };
  enum Call : uint32_t { kGrow = 1, kShrink = 2 };

  uint64_t generation = 0;
  int32_t rank = 0;  // in that world,
  int32_t size = 0;  // which had so many
  State state = State::kNone;
  uint32_t calls = 0;  // what this rank's library can do
};
static_assert(sizeof(NcclPast) == 24);

// Of a library: one that grows must also be able to end what is half made.
uint32_t nccl_calls(const nccl::Functions& library);

struct NcclPlan {
  enum class Way { kAnew, kGrow, kShrink };
  Way way = Way::kAnew;
  std::vector<int> excluded{};   // kShrink: ranks of the world before
  bool follows_failure = false;  // kShrink: something may have been ended
  std::string_view reason{};     // of kAnew
};

// By rank of the new world. Grown: all members of one world before are here, at their ranks, and
// newcomers after them. Shrunk: only members of one world before, fewer, in their order. NCCL
// numbers ranks so itself, so that theirs are those of ffdl; whatever else it could do, such as
// both in turn, is connected anew.
NcclPlan plan_nccl_world(std::span<const NcclPast> ranks);

}  // namespace ffdl::comm
