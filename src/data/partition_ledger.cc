#include "ffdl/partition_ledger.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/limits.h"
#include "data/forecast.h"
#include "data/ledger_options.h"
#include "data/ledger_state.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using base::make_error;
using data::Claim;
using data::LedgerRules;
using data::LedgerState;
using data::samples_in;

// What travels. The ranges themselves need not: they are the front of what the member holds, which
// all know; the checksum says that they know the same.
struct Record {
  uint64_t rules;  // their digest
  uint64_t samples;
  uint64_t ranges;  // their checksum
  uint64_t partitions;
};
static_assert(sizeof(Record) == 32);

uint64_t checksum(const std::vector<SampleRange>& ranges) {
  uint64_t sum = 0;
  for (const SampleRange& range : ranges) {
    const uint64_t fields[] = {range.partition, range.begin, range.end};
    sum = XXH3_64bits_withSeed(fields, sizeof fields, sum);
  }
  return sum;
}

}  // namespace

class PartitionLedger::Impl {
 public:
  explicit Impl(const PartitionLedgerOptions& options)
      : rules_(data::rules_of(options)),
        rules_digest_(rules_.digest()),
        agreed_batch_(options.agreed_batch),
        on_stable_(options.on_stable),
        state_(rules_) {
    want(options.partitions_wanted);
  }

  const LedgerRules& rules() const { return rules_; }
  const LedgerState& state() const { return state_; }
  const std::vector<SampleRange>& leases() const { return rank_ ? state_.leases(*rank_) : none_; }
  uint64_t taken() const { return samples_in(taken_); }
  std::vector<uint64_t> shares() const {
    return rules_.order == SampleOrder::kGlobal ? state_.shares() : std::vector<uint64_t>();
  }

  std::vector<std::vector<SampleRange>> forecast(size_t steps) {
    if (rules_.order != SampleOrder::kGlobal || !rank_ || state_.is_done()) return {};
    return forecast_.of(state_, *rank_, std::min(steps, base::kForecastStepsMax));
  }

  void want(int partitions) { wanted_ = static_cast<uint64_t>(std::max(partitions, 0)); }

  Result<std::vector<SampleRange>> take(uint64_t count) {
    if (agreed_batch_ && state_.whole_micro_batches(agreed_batch_()) != state_.batch()) {
      fail(
          invalid_argument("take samples of a step of {}: {} are agreed, since that step was cut; "
                           "put what agrees on them before the ledger among the participants",
                           state_.batch(), agreed_batch_()));
    }
    if (!failure_.ok()) return failure_;
    spanned_ = rules_.data.partitions_for(count);
    taken_ = front(count);
    is_due_ = true;
    return taken_;
  }

  void describe(std::span<std::byte> record) const {
    const uint64_t partitions = wanted_ == 0 ? 0 : std::max(wanted_, spanned_);
    const Record mine = {rules_digest_, taken(), checksum(taken_), partitions};
    std::memcpy(record.data(), &mine, sizeof mine);
  }

  void applied(uint64_t step, const StepRecords& records) {
    claims_.assign(state_.members().size(), Claim{0, 0});
    if (static_cast<size_t>(records.size()) == claims_.size()) {
      for (size_t rank = 0; rank < claims_.size(); ++rank) {
        claims_[rank] = claim_of(rank, records.of(static_cast<int>(rank)));
      }
    } else {
      fail(make_error(StatusCode::kInternal,
                      "commit samples of step {}: {} records of {} members; report it", step,
                      records.size(), claims_.size()));
    }
    follow_agreed_batch();
    state_.commit(step, claims_);
    taken_.clear();
    is_due_ = true;
    await_stable();
  }

  void world_changed(const World& world) {
    lineage_ = world.lineage;
    follow_agreed_batch();
    state_.change_members(world.members, !world.begins_anew());
    forecast_.forget();
    self_.reset();
    if (world.rank >= 0) self_ = world.members[static_cast<size_t>(world.rank)];
    find_rank();
    // One share was lost, the others have grown: a step of one order is a whole batch.
    if (taken_ != front(rules_.order == SampleOrder::kGlobal ? kAll : taken())) is_due_ = false;
    if (taken_ != front(taken())) taken_.clear();
  }
  bool is_contribution_due() const { return is_due_; }

  void stable(uint64_t step) {
    while (!unstable_.empty() && unstable_.front().step <= step) {
      told_ = unstable_.front().step;
      unstable_.front().lineage = lineage_;
      on_stable_(unstable_.front());
      unstable_.pop_front();
    }
  }

  Status restore(std::span<const std::byte> bytes) {
    FFDL_ASSIGN_OR_RETURN(state_, LedgerState::decode(bytes, rules_));
    forecast_.forget();
    find_rank();
    is_due_ = is_due_ && taken_.empty();
    taken_.clear();
    failure_ = {};
    unstable_.clear();
    if (told_ && *told_ > state_.last().step) told_.reset();
    await_stable();
    return {};
  }

 private:
  // Without one a state from elsewhere may have another batch than this ledger's own.
  void follow_agreed_batch() {
    if (rules_.order != SampleOrder::kGlobal) return;
    state_.set_batch(agreed_batch_ ? agreed_batch_() : rules_.batch_samples);
  }

  std::vector<SampleRange> front(uint64_t count) const {
    if (!rank_ || state_.is_done()) return {};
    return state_.front(*rank_, count);
  }

  void find_rank() {
    rank_.reset();
    if (!self_) return;
    const auto& members = state_.members();
    const auto found = std::find(members.begin(), members.end(), *self_);
    if (found != members.end()) rank_ = static_cast<size_t>(found - members.begin());
  }

  // A record that is not in order claims nothing, at all members alike.
  Claim claim_of(size_t rank, std::span<const std::byte> bytes) {
    Record record;
    std::memcpy(&record, bytes.data(), sizeof record);
    if (record.rules != rules_digest_) {
      fail(invalid_argument(
          "commit samples of '{}': it has other options than this member; give the same "
          "PartitionLedgerOptions to all",
          state_.members()[rank].id));
      return {0, 0};
    }
    if (record.samples > state_.held(rank) ||
        record.ranges != checksum(state_.front(rank, record.samples))) {
      fail(make_error(StatusCode::kInternal,
                      "commit {} samples of '{}': they are not the next that it holds; restore a "
                      "checkpoint, and report it",
                      record.samples, state_.members()[rank].id));
      return {0, 0};
    }
    return {record.samples, record.partitions};
  }

  void fail(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
  }

  void await_stable() {
    const CommittedStep& last = state_.last();
    if (!on_stable_ || last.parts.empty() || told_ == last.step) return;
    if (unstable_.size() == base::kUnstableStepsMax) {
      fail(make_error(StatusCode::kExhausted,
                      "commit samples of step {}: {} steps wait for stable(); call it once all "
                      "members have applied a step",
                      last.step, unstable_.size()));
      return;
    }
    unstable_.push_back(last);
  }

  const LedgerRules rules_;
  const uint64_t rules_digest_;
  const std::function<uint64_t()> agreed_batch_;
  const std::function<void(const CommittedStep&)> on_stable_;
  const std::vector<SampleRange> none_{};
  LedgerState state_;
  // What follows is this member's own.
  std::optional<Member> self_{};
  std::optional<size_t> rank_{};
  data::Forecast forecast_{};
  uint64_t wanted_ = 0;
  uint64_t spanned_ = 0;  // partitions that it needs for as many samples as it asked for last
  std::vector<SampleRange> taken_{};  // for the step that is being made
  // What was taken is still to be contributed. Once it is not, it stays so until the next take().
  bool is_due_ = true;
  Status failure_{};
  std::vector<Claim> claims_{};
  std::deque<CommittedStep> unstable_{};
  uint64_t lineage_ = 1;
  std::optional<uint64_t> told_{};  // the last step that on_stable_ was told of
};

Result<std::unique_ptr<PartitionLedger>> PartitionLedger::create(
    const PartitionLedgerOptions& options) {
  FFDL_RETURN_IF_ERROR(data::check_options(options));
  return std::unique_ptr<PartitionLedger>(new PartitionLedger(std::make_unique<Impl>(options)));
}

PartitionLedger::PartitionLedger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PartitionLedger::~PartitionLedger() = default;

Result<std::vector<SampleRange>> PartitionLedger::take(uint64_t count) {
  return impl_->take(count);
}
uint64_t PartitionLedger::batch_samples() const { return impl_->state().batch(); }
uint64_t PartitionLedger::taken() const { return impl_->taken(); }
const std::vector<SampleRange>& PartitionLedger::leases() const { return impl_->leases(); }
std::vector<std::vector<SampleRange>> PartitionLedger::forecast(size_t steps) {
  return impl_->forecast(steps);
}
std::vector<uint64_t> PartitionLedger::shares() const { return impl_->shares(); }
void PartitionLedger::want(int partitions) { impl_->want(partitions); }

uint64_t PartitionLedger::samples() const { return impl_->rules().data.samples; }
uint64_t PartitionLedger::epoch() const { return impl_->state().epoch(); }
uint64_t PartitionLedger::committed() const { return impl_->state().committed(); }
bool PartitionLedger::is_done() const { return impl_->state().is_done(); }

Result<std::vector<uint64_t>> PartitionLedger::sample_indices(
    std::span<const SampleRange> ranges) const {
  return data::look_up(ranges, impl_->rules().data);
}

size_t PartitionLedger::record_bytes() const { return sizeof(Record); }
void PartitionLedger::describe(std::span<std::byte> record) { impl_->describe(record); }
void PartitionLedger::applied(uint64_t step, const StepRecords& records) {
  impl_->applied(step, records);
}
void PartitionLedger::world_changed(const World& world) { impl_->world_changed(world); }
bool PartitionLedger::is_contribution_due() const { return impl_->is_contribution_due(); }
void PartitionLedger::stable(uint64_t step) { impl_->stable(step); }
std::vector<std::byte> PartitionLedger::save() const { return impl_->state().encode(); }
Status PartitionLedger::restore(std::span<const std::byte> bytes) { return impl_->restore(bytes); }

}  // namespace ffdl
