#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "data/data_set.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// What does not change for the life of a ledger and is the same at all members.
struct LedgerRules {
  DataSet data{};
  uint64_t epochs = 1;
  SampleOrder order = SampleOrder::kOnDemand;
  uint64_t batch_samples = 0;  // of the first step
  uint64_t micro_batch_samples = 1;

  // Of all that makes one order of samples. How many epochs there are may change between two runs.
  uint64_t order_digest() const;
  uint64_t digest() const;
};

// What one member says with a step.
struct Claim {
  uint64_t samples = 0;     // from the front of its leases
  uint64_t partitions = 1;  // that it wants to hold
  // Of what is then at the front of its leases: not to be given to others, as its work on it is
  // under way. Members that step together have none.
  uint64_t under_way = 0;
};

// The state of a ledger: a function of its rules and of the calls of set_batch(), change_members()
// and commit(), so that it is equal at all members. Done is what was begun and is neither leased
// nor returned.
class LedgerState {
 public:
  explicit LedgerState(const LedgerRules& rules) : rules_(rules), batch_(rules.batch_samples) {}

  // Of kGlobal: how many samples a step has that is cut from now on, in whole micro-batches.
  void set_batch(uint64_t samples) { batch_ = whole_micro_batches(samples); }
  uint64_t whole_micro_batches(uint64_t samples) const;
  uint64_t batch() const { return batch_; }

  // What members that are not among these held is returned, and goes out again first. Who is new
  // among these, if `others_train`, takes part in the next step without samples, and is given no
  // share of a batch for it. Doing so twice is doing so once.
  void change_members(const std::vector<Member>& members, bool others_train = false);
  // One claim for each member, and none of more than it holds.
  void commit(uint64_t step, std::span<const Claim> claims);

  const std::vector<Member>& members() const { return members_; }
  const std::vector<SampleRange>& leases(size_t rank) const { return leases_[rank]; }
  uint64_t held(size_t rank) const;
  // Of kGlobal: the micro-batches of each rank in the next step, full or not.
  std::vector<uint64_t> shares() const;
  // The first samples that a member holds: `count` of them, or all.
  std::vector<SampleRange> front(size_t rank, uint64_t count) const;
  const CommittedStep& last() const { return last_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t committed() const;  // samples of this epoch
  bool is_done() const { return epoch_ >= rules_.epochs; }

  std::vector<std::byte> encode() const;
  // Errors: kCorrupt.
  static Result<LedgerState> decode(std::span<const std::byte> bytes, const LedgerRules& rules);

 private:
  bool has_rest() const;
  void take_back_all();
  void take_back(std::vector<SampleRange>& pieces);
  bool begin_next_partition();
  void hand_out_partitions(std::span<const Claim> claims);
  void share_the_rest(std::span<const Claim> claims);
  void cut_batch();
  bool is_possible() const;

  LedgerRules rules_;
  uint64_t batch_ = 0;
  uint64_t epoch_ = 0;
  uint64_t begun_ = 0;  // partitions of this epoch, in its order
  std::vector<Member> members_{};
  std::vector<std::vector<SampleRange>> leases_{};  // of each member
  std::vector<bool> is_new_{};                      // each member, until the next commit
  std::deque<SampleRange> returned_{};
  CommittedStep last_{};
};

}  // namespace ffdl::data
