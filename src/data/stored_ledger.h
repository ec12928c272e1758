#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/ledger_state.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// What one worker does at once: it commits samples from the front of its leases, and says which it
// works on next, so that they are given to nobody else while it lives.
struct LedgerTurn {
  uint64_t done = 0;        // samples; of those that it said it works on
  uint64_t next = 0;        // samples, or all that it holds
  uint64_t partitions = 1;  // that it wants to hold
};

// How often a job began anew, and from what: StoredLedger::origin_of() what was saved, 0: from its
// beginning.
struct Lineage {
  uint64_t number = 1;
  uint64_t origin = 0;

  bool operator==(const Lineage&) const = default;
};

// What a store keeps of the ledger of workers that do not step together. Each change is a function
// of this value alone, made by one worker and put in its place by compare-and-put. Pure.
class StoredLedger {
 public:
  explicit StoredLedger(const LedgerRules& rules) : state_(rules) {}

  // A new life, whose incarnation is larger than all before. One under the same id is over.
  // Nothing: there are too many workers.
  std::optional<Member> join(const std::string& id);
  // What it holds goes back. If its work on some samples was under way, they may have been used,
  // and are used again: they count as repeated unless it says that it left them alone.
  void leave(const Member& member, bool left_alone);
  // Errors of the caller are checks: it is a member, and has said what it now has done.
  void take_turn(size_t rank, const LedgerTurn& turn);

  std::optional<size_t> rank_of(const Member& member) const;
  const LedgerState& state() const { return state_; }
  uint64_t under_way(size_t rank) const { return workers_[rank].under_way; }
  // How many turns that life has taken: whether one whose outcome is unknown took effect.
  uint64_t turns(size_t rank) const { return workers_[rank].turns; }
  const Lineage& lineage() const { return lineage_; }
  uint64_t repeated() const { return repeated_; }

  // As a job begins that goes on from here, or anew: nobody is there, and no incarnation of
  // `before` comes again.
  void begin_lineage(const Lineage& lineage, const StoredLedger* before);

  // Another number for other bytes.
  static uint64_t origin_of(std::span<const std::byte> saved);
  std::string encode() const;
  // Errors: kCorrupt.
  static Result<StoredLedger> decode(std::string_view bytes, const LedgerRules& rules);

 private:
  struct Worker {
    uint64_t under_way = 0;  // samples from the front of its leases
    uint64_t turns = 0;
  };
  void keep(const std::vector<Member>& members);

  LedgerState state_;
  std::vector<Worker> workers_{};  // of each member
  Lineage lineage_{};
  uint64_t lives_ = 0;     // the last incarnation
  uint64_t repeated_ = 0;  // samples
};

}  // namespace ffdl::data
