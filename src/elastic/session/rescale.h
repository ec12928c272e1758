#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/protocol_version.h"
#include "ffdl/membership.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// A member's report of its state as it enters a world. It is sent as raw bytes.
struct Report {
  uint64_t format = 0;  // base::kProtocolVersion
  uint64_t model = 0;  // a hash of the layout of state and gradients
  uint64_t holds = 0;  // 1: it holds a complete state with the label below
  // The label of the state: of the last world that it was in step with, and in a world that begins
  // a lineage that of Membership::label_at_beginning().
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  uint64_t history = 0;  // a hash of the contents of the steps
  uint64_t hash = 0;     // of the state; 0: not computed
  // The world in which the state's last step was made; 0: it is the initial state.
  uint64_t made_lineage = 0;
  uint64_t made_generation = 0;

  StateLabel label() const { return {lineage, generation, step}; }
};
static_assert(sizeof(Report) == 80, "a change needs another base::kProtocolVersion");

// The source of each member's state when a world begins.
struct RescalePlan {
  static constexpr int kOwn = -1;

  // If a lineage begins: the label of its state in an earlier lineage (all 0: the initial state),
  // and the member that had it in memory (empty: a checkpoint had it).
  StateLabel base{};
  std::string holder{};
  StateLabel made{};  // the label of the state by its last step; all 0: the initial state
  uint64_t step = 0;
  uint64_t history = 0;
  std::vector<int> from;     // by rank; kOwn: it has the state
  std::vector<int> refused;  // ranks whose model differs from that of the state
};

// Chooses the base and its senders. The base is the highest label (generation, step) of this
// lineage, at any member. In a world that begins a lineage, the base is the state that rank 0
// begins with, which may be a checkpoint. The history that begins there is the hash of that state.
// All holders of the base share the work of sending it. Errors: kInternal (equal labels of unequal
// states, or no member has one), kInvalidArgument (members of other versions).
Result<RescalePlan> plan_rescale(std::span<const Report> reports, const World& world);

// Plans the beginning of a lineage from the newest complete state that a member holds, by the
// labels of Membership::label_at_beginning(). Returns nothing if the checkpoint with that label is
// newer, or if no member holds a state: then rank 0 makes a state, and plan_rescale() plans.
// Errors: those of plan_rescale().
Result<std::optional<RescalePlan>> plan_from_memory(std::span<const Report> reports,
                                                    const World& world,
                                                    const std::optional<StateLabel>& checkpoint);

}  // namespace ffdl::elastic
