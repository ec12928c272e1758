#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/gpu/nccl/interface.h"

// Plans how the ranks of a world connect their GPUs if some of them have a communicator of NCCL
// already. All ranks make the same decision from the data of all.
namespace ffdl::comm {

// The data of a rank about the world before. Sent as raw bytes.
struct NcclPast {
  enum class State : uint32_t {
    kNone,     // it is new
    kQuiet,    // nothing runs there
    kRevoked,  // what ran was ended after a failure
    kGone,     // the communicator has ended, or never was
  };
  enum Call : uint32_t { kGrow = 1, kShrink = 2 };

  uint64_t generation = 0;
  int32_t rank = 0;  // in that world
  int32_t size = 0;  // of that world
  State state = State::kNone;
  uint32_t calls = 0;  // supported by this rank's library
};
static_assert(sizeof(NcclPast) == 24);

// Returns the calls that a library supports. One that grows must also be able to end a half-made
// world.
uint32_t nccl_calls(const nccl::Functions& library);

struct NcclPlan {
  enum class Way { kFresh, kGrow, kShrink };
  Way way = Way::kFresh;
  std::vector<int> excluded{};   // kShrink: ranks of the world before
  bool follows_failure = false;  // kShrink: operations may have been ended
  std::string_view reason{};     // of kFresh
};

// Plans from the data of all ranks, by rank of the new world. kGrow: all members of one world
// before are here, at their ranks, and newcomers after them. kShrink: only members of one world
// before, fewer, in their order. NCCL itself numbers ranks so, so its ranks are those of ffdl. All
// other cases are connected afresh, also those that NCCL could do in two calls.
NcclPlan plan_nccl_world(std::span<const NcclPast> ranks);

}  // namespace ffdl::comm
