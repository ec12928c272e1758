#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "data/ledger/data_set.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Settings that are fixed for the life of a ledger and equal at all members.
struct LedgerRules {
  DataSet data{};
  uint64_t epochs = 1;
  SampleOrder order = SampleOrder::kOnDemand;
  uint64_t batch_samples = 0;  // in the first step
  uint64_t micro_batch_samples = 1;

  // Returns all fields that determine the order of samples. `epochs` is not among them, since it
  // may change between two runs.
  std::array<uint64_t, 8> order_fields() const;
  // Hashes them, and `epochs`.
  uint64_t digest() const;
};

// The part of one member in a commit.
struct Claim {
  uint64_t samples = 0;     // committed from the front of its leases
  uint64_t partitions = 1;  // number that it wants to hold
  // Samples next at the front of its leases that it already works on. They are not moved to other
  // members. It is 0 for members that step together.
  uint64_t under_way = 0;
};

// The state of a ledger. It is a function of the rules and of the calls of set_batch(),
// change_members() and commit(), so that it is equal at all members. A sample is done when it was
// begun and is neither leased nor returned.
class LedgerState {
 public:
  explicit LedgerState(const LedgerRules& rules) : rules_(rules), batch_(rules.batch_samples) {}

  // Sets the batch size of the steps that are cut from now on, in whole micro-batches. Only for
  // kGlobal.
  void set_batch(uint64_t samples) { batch_ = whole_micro_batches(samples); }
  uint64_t whole_micro_batches(uint64_t samples) const;
  uint64_t batch() const { return batch_; }

  // Changes the members. Samples that departed members held are returned and are handed out again
  // first. With `others_train`, a new member takes part in the next step without samples and has no
  // share of its batch. A repeated call has no further effect.
  void change_members(const std::vector<Member>& members, bool others_train = false);
  // Commits one claim per member. A member claims no more than it holds.
  void commit(uint64_t step, std::span<const Claim> claims);

  const std::vector<Member>& members() const { return members_; }
  const std::vector<SampleRange>& leases(size_t rank) const { return leases_[rank]; }
  uint64_t held(size_t rank) const;
  // Returns the number of micro-batches of each rank in the next step, full or not. Only for
  // kGlobal.
  std::vector<uint64_t> shares() const;
  // Returns the first `count` samples that a member holds, or all if it holds fewer.
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
  uint64_t begun_ = 0;  // number of partitions begun in this epoch, in its order
  std::vector<Member> members_{};
  std::vector<std::vector<SampleRange>> leases_{};  // by rank
  std::vector<bool> is_new_{};                      // by rank, until the next commit
  std::deque<SampleRange> returned_{};
  CommittedStep last_{};
};

}  // namespace ffdl::data
