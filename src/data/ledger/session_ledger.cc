#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "ffdl/data/sample_ledger.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/limits.h"
#include "data/ledger/forecast.h"
#include "data/ledger/ledger_options.h"
#include "data/ledger/ledger_state.h"

namespace ffdl {
namespace {

using base::invalid_argument;
using base::make_error;
using data::Claim;
using data::LedgerRules;
using data::LedgerState;
using data::samples_in;

// The record that members exchange. It omits the ranges: they are the front of the member's leases,
// which all members know. The checksum verifies that they agree.
struct Record {
  uint64_t rules;  // digest of the rules
  uint64_t samples;
  uint64_t ranges;  // checksum of the ranges
  uint64_t partitions;
};
static_assert(sizeof(Record) == 32, "a change needs another base::kProtocolVersion");

uint64_t checksum(const std::vector<SampleRange>& ranges) {
  uint64_t sum = 0;
  for (const SampleRange& range : ranges) {
    const uint64_t fields[] = {range.partition, range.begin, range.end};
    sum = XXH3_64bits_withSeed(fields, sizeof fields, sum);
  }
  return sum;
}

// The state of the ledger, which the members hold in common, and this member's part of a step.
class LedgerParticipant final : public StepParticipant {
 public:
  LedgerParticipant(const LedgerOptions& options, const LedgerMemberOptions& member)
      : rules_(data::rules_of(options)),
        rules_digest_(rules_.digest()),
        agreed_batch_(member.batch_size_controller),
        on_stable_(member.on_stable),
        state_(rules_) {
    want(member.partitions_wanted);
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
      fail(invalid_argument(
          "take samples of a step of {}: the batch size is now {}, agreed after that step was "
          "divided; put the BatchSizeController before the ledger in the list of participants",
          state_.batch(), agreed_batch_()));
    }
    if (!failure_.ok()) return failure_;
    spanned_ = rules_.data.partitions_for(count);
    taken_ = front(count);
    is_due_ = true;
    return taken_;
  }

  size_t record_bytes() const override { return sizeof(Record); }

  void write_record(std::span<std::byte> record) override {
    const uint64_t partitions = wanted_ == 0 ? 0 : std::max(wanted_, spanned_);
    const Record mine = {rules_digest_, taken(), checksum(taken_), partitions};
    std::memcpy(record.data(), &mine, sizeof mine);
  }

  void applied(uint64_t step, const StepRecords& records) override {
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

  void world_changed(const World& world) override {
    const bool begins = lineage_ != world.lineage || world.begins_anew();
    if (begins && world.lineage > 1) begin_lineage();
    lineage_ = world.lineage;
    continues_ = world.continues;
    follow_agreed_batch();
    state_.change_members(world.members, !world.begins_anew());
    forecast_.forget();
    self_.reset();
    if (world.rank >= 0) self_ = world.members[static_cast<size_t>(world.rank)];
    find_rank();
    // The other shares have grown, since one was lost. With one global order, a step needs the
    // whole batch.
    if (taken_ != front(rules_.order == SampleOrder::kGlobal ? SampleLedger::kAll : taken()))
      is_due_ = false;
    if (taken_ != front(taken())) taken_.clear();
  }
  // Returns false if the taken samples are another member's now. With kGlobal also if they are
  // fewer than this member's share.
  bool is_contribution_due() const override { return is_due_; }
  std::optional<uint64_t> step_samples() const override { return taken(); }

  void stable(uint64_t step) override {
    while (!unstable_.empty() && unstable_.front().step <= step) {
      told_ = unstable_.front().step;
      unstable_.front().lineage = lineage_;
      unstable_.front().continues = continues_;
      on_stable_(unstable_.front());
      unstable_.pop_front();
    }
  }

  std::vector<std::byte> save() const override { return state_.encode(); }

  Status restore(std::span<const std::byte> bytes) override {
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
  // Without a controller, a restored state may have another batch size than this ledger's options.
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

  // Returns a member's claim. An invalid record claims nothing, at all members alike.
  Claim claim_of(size_t rank, std::span<const std::byte> bytes) {
    Record record;
    std::memcpy(&record, bytes.data(), sizeof record);
    if (record.rules != rules_digest_) {
      fail(
          invalid_argument("commit samples of '{}': its LedgerOptions differ from those of this "
                           "member; use the same LedgerOptions at all members",
                           state_.members()[rank].id));
      return {0, 0};
    }
    if (record.samples > state_.held(rank) ||
        record.ranges != checksum(state_.front(rank, record.samples))) {
      fail(make_error(StatusCode::kInternal,
                      "commit {} samples of '{}': they are not the next samples of its sample "
                      "leases; restore a checkpoint, and report it",
                      record.samples, state_.members()[rank].id));
      return {0, 0};
    }
    return {record.samples, record.partitions};
  }

  void fail(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
  }

  // Reports the last step of the state once more, even if it had no samples: this replaces all that
  // other lineages reported from that step on. Without a step, the first one does.
  void begin_lineage() {
    told_.reset();
    tells_empty_ = true;
    if (state_.last().step == 0) return;
    if (unstable_.empty() || unstable_.back().step != state_.last().step) await_stable();
    tells_empty_ = false;
  }

  void await_stable() {
    const CommittedStep& last = state_.last();
    if (!on_stable_ || told_ == last.step || (last.parts.empty() && !tells_empty_)) return;
    tells_empty_ = false;
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
  // The members below belong to this process alone.
  std::optional<Member> self_{};
  std::optional<size_t> rank_{};
  data::Forecast forecast_{};
  uint64_t wanted_ = 0;
  uint64_t spanned_ = 0;  // partitions needed for as many samples as take() last asked for
  std::vector<SampleRange> taken_{};  // for the step in progress
  // The taken samples are still to be contributed. Once false, it stays false until the next
  // take().
  bool is_due_ = true;
  Status failure_{};
  std::vector<Claim> claims_{};
  std::deque<CommittedStep> unstable_{};
  uint64_t lineage_ = 1;
  uint64_t continues_ = 0;
  bool tells_empty_ = false;  // the next step is the first one told in this lineage
  std::optional<uint64_t> told_{};  // the last step that on_stable_ received
};

class SessionLedger final : public SampleLedger {
 public:
  SessionLedger(const LedgerOptions& options, const LedgerMemberOptions& member)
      : participant_(options, member) {}

  Result<std::vector<SampleRange>> take(uint64_t count) override {
    return participant_.take(count);
  }
  uint64_t taken() const override { return participant_.taken(); }
  const std::vector<SampleRange>& leases() const override { return participant_.leases(); }
  std::vector<std::vector<SampleRange>> forecast(size_t steps) override {
    return participant_.forecast(steps);
  }
  void want(int partitions) override { participant_.want(partitions); }

  uint64_t samples() const override { return participant_.rules().data.samples; }
  uint64_t epoch() const override { return participant_.state().epoch(); }
  uint64_t committed() const override { return participant_.state().committed(); }
  bool is_done() const override { return participant_.state().is_done(); }
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override {
    return data::look_up(ranges, participant_.rules().data);
  }

  Result<std::vector<std::byte>> save() override { return participant_.save(); }
  StepParticipant* participant() override { return &participant_; }
  uint64_t batch_samples() const override { return participant_.state().batch(); }
  std::vector<uint64_t> shares() const override { return participant_.shares(); }

 private:
  LedgerParticipant participant_;
};

}  // namespace

Result<std::unique_ptr<SampleLedger>> make_session_ledger(const LedgerOptions& options,
                                                          const LedgerMemberOptions& member) {
  FFDL_RETURN_IF_ERROR(data::check_options(options, member));
  return std::unique_ptr<SampleLedger>(std::make_unique<SessionLedger>(options, member));
}

}  // namespace ffdl
