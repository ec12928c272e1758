#pragma once

#include <array>
#include <cstddef>
#include <string_view>

// Lists rules of docs/internals/protocol-step.md, each broken in one place. That is the store's
// work for a member, the launcher's reports, or the session above membership. The simulator must
// find each.
namespace ffdl::sim {

enum class Mutant {
  kNone,
  kLatestOverlap,      // A5: state_holders are the members of the latest record, active or not
  kActiveEarly,        // A6: active when connected, before all have healed
  kOkBeforeActive,     // A7: results are taken before the world is known to be active
  kSameIncarnation,    // A8: each life has the first life's incarnation
  kNoCompare,          // A10: the record is put without a comparison
  kLeaseProvesDeath,   // A11: an ended lease is taken for a death
  kIgnoresFence,       // A11: a member that cannot renew continues
  kReturnsUnasked,     // A11: a member whose lease ended while it stood still takes it for valid
  kForeignCheckpoint,  // A11: a checkpoint of any lineage is published
  kOlderCheckpoint,    // A11: a checkpoint is published over a newer one
  kNoCarrierGoesBack,  // a world that goes back to a checkpoint needs no state holder
  kKeepsState,         // a member that goes back keeps its state
  kVoidsLiveState,      // a lineage begins from a checkpoint or nothing, whatever members hold
  kOlderBase,           // a lineage begins with another than the newest state
  kBehindCheckpoint,    // a lineage begins with a member's state, although a checkpoint is newer
  kFencedBeatsCarrier,  // a fenced member returns with the newest label
  kForgetsCompletion,  // the record does not get the end of the training
  // Mutants of sessions: in the store's writes, in members' messages, or in their training.
  kBornActive,        // A6: active as soon as it is formed
  kLastApply,         // A1: the label has the world of the last step, not the last one in step
  kStepAlone,         // A2: labels are compared by their steps only
  kParticipantApart,  // A7: the data of a participant is not part of the state
  kFirstBucket,       // A3: a step counts when its first bucket was averaged
  kBaseNotTold,       // the last step of a lineage's first state is not reported in that lineage
  kTornShard,         // half of the bytes on the disk are zeros, without an error
  kWaitsInOldWorld,   // a member waits in a world that is over until its collectives fail
};

struct MutantName {
  Mutant mutant;
  std::string_view name;
};

inline constexpr std::array kMutants = {
    MutantName{Mutant::kNone, "none"},
    MutantName{Mutant::kLatestOverlap, "latest-overlap"},
    MutantName{Mutant::kActiveEarly, "active-early"},
    MutantName{Mutant::kOkBeforeActive, "ok-before-active"},
    MutantName{Mutant::kSameIncarnation, "same-incarnation"},
    MutantName{Mutant::kNoCompare, "no-compare"},
    MutantName{Mutant::kLeaseProvesDeath, "lease-proves-death"},
    MutantName{Mutant::kIgnoresFence, "ignores-fence"},
    MutantName{Mutant::kReturnsUnasked, "returns-unasked"},
    MutantName{Mutant::kForeignCheckpoint, "foreign-checkpoint"},
    MutantName{Mutant::kOlderCheckpoint, "older-checkpoint"},
    MutantName{Mutant::kNoCarrierGoesBack, "no-carrier-goes-back"},
    MutantName{Mutant::kKeepsState, "keeps-state"},
    MutantName{Mutant::kVoidsLiveState, "voids-live-state"},
    MutantName{Mutant::kOlderBase, "older-base"},
    MutantName{Mutant::kBehindCheckpoint, "behind-checkpoint"},
    MutantName{Mutant::kFencedBeatsCarrier, "fenced-beats-carrier"},
    MutantName{Mutant::kForgetsCompletion, "forgets-completion"},
    MutantName{Mutant::kBornActive, "born-active"},
    MutantName{Mutant::kLastApply, "last-apply"},
    MutantName{Mutant::kStepAlone, "step-alone"},
    MutantName{Mutant::kParticipantApart, "participant-apart"},
    MutantName{Mutant::kFirstBucket, "first-bucket"},
    MutantName{Mutant::kBaseNotTold, "base-not-told"},
    MutantName{Mutant::kTornShard, "torn-shard"},
    MutantName{Mutant::kWaitsInOldWorld, "waits-in-old-world"},
};

}  // namespace ffdl::sim
