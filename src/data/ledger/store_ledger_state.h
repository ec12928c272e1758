#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/ledger/ledger_state.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// One turn of a worker. It commits samples from the front of its leases and announces the samples
// that it works on next. No other worker receives those while it lives.
struct LedgerTurn {
  uint64_t done = 0;        // samples, of those announced before
  uint64_t next = 0;        // samples, or all that it holds if fewer
  uint64_t partitions = 1;  // number that it wants to hold
};

// The number of times that a job began, and its origin: StoreLedgerState::origin_of() the saved
// state, or 0 for a fresh start.
struct Lineage {
  uint64_t number = 1;
  uint64_t origin = 0;

  bool operator==(const Lineage&) const = default;
};

// The ledger of workers that do not step together, as a store keeps it. One worker makes each
// change from this value alone and writes it by compare-and-put. Pure.
class StoreLedgerState {
 public:
  explicit StoreLedgerState(const LedgerRules& rules) : state_(rules) {}

  // Adds a new life, whose incarnation is larger than all before. Ends an earlier life of the same
  // id. Returns nothing if there are too many workers.
  std::optional<Member> join(const std::string& id);
  // Removes a member and returns its samples. Samples that it worked on may have been used and are
  // used again. They count as repeated unless `left_alone`.
  void leave(const Member& member, bool left_alone);
  // Requires a member of the ledger, and no more `done` than it announced; both are checks.
  void take_turn(size_t rank, const LedgerTurn& turn);

  std::optional<size_t> rank_of(const Member& member) const;
  const LedgerState& state() const { return state_; }
  uint64_t under_way(size_t rank) const { return workers_[rank].under_way; }
  // Returns the number of turns that this life has taken. It shows whether a turn with an unknown
  // outcome took effect.
  uint64_t turns(size_t rank) const { return workers_[rank].turns; }
  const Lineage& lineage() const { return lineage_; }
  uint64_t repeated() const { return repeated_; }

  // Begins a lineage from this state. Removes all members. No incarnation of `before` is used
  // again.
  void begin_lineage(const Lineage& lineage, const StoreLedgerState* before);

  // Returns a number that differs for different bytes.
  static uint64_t origin_of(std::span<const std::byte> saved);
  std::string encode() const;
  // Errors: kCorrupt.
  static Result<StoreLedgerState> decode(std::string_view bytes, const LedgerRules& rules);

 private:
  struct Worker {
    uint64_t under_way = 0;  // samples from the front of its leases
    uint64_t turns = 0;
  };
  void keep(const std::vector<Member>& members);

  LedgerState state_;
  std::vector<Worker> workers_{};  // by rank
  Lineage lineage_{};
  uint64_t lives_ = 0;     // the last incarnation
  uint64_t repeated_ = 0;  // samples
};

}  // namespace ffdl::data
