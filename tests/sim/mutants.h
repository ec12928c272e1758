#pragma once

#include <array>
#include <cstddef>
#include <string_view>

// Rules of docs/protocol-step.md, each broken at a seam: in what the store does for a member, in
// what the launcher says, or in what the session above membership does. The simulator must find
// each.
namespace ffdl::sim {

enum class Mutant {
  kNone,
  kLatestOverlap,      // A5: carriers are the members of the latest record, active or not
  kActiveEarly,        // A6: active when connected, before all have healed
  kOkBeforeActive,     // A7: results are taken before the world is known to be active
  kSameIncarnation,    // A8: each life has the first life's incarnation
  kNoCompare,          // A10: the record is put whatever it was
  kLeaseProvesDeath,   // A11: an ended lease is taken for a death
  kIgnoresFence,       // A11: one who cannot renew goes on
  kForeignCheckpoint,  // A11: a checkpoint is published whatever its lineage
  kOlderCheckpoint,    // A11: a checkpoint is published over a newer one
  kNoCarrierGoesBack,  // a world that goes back to a checkpoint needs no carrier
  kKeepsState,         // who goes back keeps the state that it has
  // Of sessions: in what the store takes, in what members say, or in what they train.
  kBornActive,        // A6: active as soon as it is formed
  kLastApply,         // A1: the label has the world of the last step, not the last one in step
  kStepAlone,         // A2: labels are compared by their steps alone
  kParticipantApart,  // A7: what a participant keeps is not part of the state
  kFirstBucket,       // A3: a step counts when its first bucket was averaged
  kTornShard,         // of what is written to the disk a half is zeros, and nobody is told
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
    MutantName{Mutant::kForeignCheckpoint, "foreign-checkpoint"},
    MutantName{Mutant::kOlderCheckpoint, "older-checkpoint"},
    MutantName{Mutant::kNoCarrierGoesBack, "no-carrier-goes-back"},
    MutantName{Mutant::kKeepsState, "keeps-state"},
    MutantName{Mutant::kBornActive, "born-active"},
    MutantName{Mutant::kLastApply, "last-apply"},
    MutantName{Mutant::kStepAlone, "step-alone"},
    MutantName{Mutant::kParticipantApart, "participant-apart"},
    MutantName{Mutant::kFirstBucket, "first-bucket"},
    MutantName{Mutant::kTornShard, "torn-shard"},
};

}  // namespace ffdl::sim
