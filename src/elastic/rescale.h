#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// What a member says of its state when it comes into a world. Sent as it is; members that do not
// run the same version are told apart by `format`.
struct Report {
  uint64_t format = 0;
  uint64_t model = 0;  // a hash of what the state and the gradients consist of
  uint64_t holds = 0;  // 1: it holds the state of the label below
  uint64_t lineage = 0;
  uint64_t generation = 0;  // of the last world that it was in step with
  uint64_t step = 0;
  uint64_t history = 0;  // a hash of what the steps were made of
  uint64_t hash = 0;     // of the state; 0: not taken
};
static_assert(sizeof(Report) == 64);

inline constexpr uint64_t kReportFormat = 2;

// From whom each member takes the state that the world begins with.
struct RescalePlan {
  static constexpr int kOwn = -1;

  uint64_t step = 0;
  uint64_t history = 0;
  std::vector<int> from;     // by rank; kOwn: it has it
  std::vector<int> refused;  // ranks whose model is another than that of the state
};

// The base is the highest label (generation, step) of this lineage, whoever has it; in a world
// that begins anew what rank 0 begins with, which may be a checkpoint: the history that begins
// there is the hash of that state. Those who have it share the work of giving it. Errors: kInternal
// (equal labels of unequal states, or nobody has one), kInvalidArgument (members of other
// versions).
Result<RescalePlan> plan_rescale(std::span<const Report> reports, const World& world);

}  // namespace ffdl::elastic
