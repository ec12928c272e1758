#include "ffdl/slot_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/hand_out.h"
#include "data/ledger_options.h"

namespace ffdl {
namespace data {

// The partitions of a server, as one of its learners sees them.
class ServerBoard final : public PartitionBoard {
 public:
  explicit ServerBoard(Learner& learner) : learner_(learner) {}

  uint64_t committed(uint32_t partition) const override { return learner_.committed(partition); }
  Result<uint64_t> used(uint32_t partition) const override { return learner_.pushed(partition); }
  bool is_free(uint32_t partition) const override { return learner_.is_free(partition); }
  Result<bool> hold(uint32_t partition) override { return learner_.hold(partition); }
  Status let_go(uint32_t partition) override { return learner_.let_go(partition); }

 private:
  Learner& learner_;
};

}  // namespace data

namespace {

using base::invalid_argument;

// Learners have at most 254 slots.
constexpr uint64_t kStepsOfSequence = 256;

}  // namespace

class SlotLedger::Impl {
 public:
  Impl(const PartitionLedgerOptions& options, Learner& learner)
      : learner_(learner),
        board_(learner),
        rules_(data::rules_of(options)),
        on_stable_(options.on_stable),
        wanted_(static_cast<uint64_t>(std::max(options.partitions_wanted, 1))),
        hand_out_(rules_.data, rules_.epochs) {
    hand_out_.begin(board_);
    if (!on_stable_) return;
    tell_newest();
    learner_.tell_publications([this](const Publication& made) { tell(made); });
  }
  ~Impl() {
    if (on_stable_) learner_.tell_publications(nullptr);
    // What was pushed and not published stays the learner's until it is.
    for (const SampleRange& lease : leases()) {
      if (const Status given = learner_.let_go(lease.partition); !given.ok()) return;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const data::DataSet& data() const { return rules_.data; }
  const data::HandOut& hand_out() const { return hand_out_; }
  const std::vector<SampleRange>& leases() const { return hand_out_.leases(); }
  uint64_t committed() const { return hand_out_.committed(board_); }

  Result<std::vector<SampleRange>> take(uint64_t count) {
    FFDL_ASSIGN_OR_RETURN(const uint64_t ranges, learner_.ranges_left());
    FFDL_RETURN_IF_ERROR(look(count));
    taken_ = data::front_of(leases(), count, ranges);
    return taken_;
  }

  uint64_t taken() const { return data::samples_in(not_pushed()); }

  Status wait(Time deadline) {
    FFDL_ASSIGN_OR_RETURN(const bool can_train, holds_and_can_push());
    if (hand_out_.is_done() || can_train) return {};
    Status looked;
    const auto ready = [&] {
      looked = look(1);
      const auto can = holds_and_can_push();
      return !looked.ok() || hand_out_.is_done() || !can.ok() || *can;
    };
    if (Status rested = learner_.rest_until(ready, deadline); !rested.ok()) {
      return std::move(rested).with_context(
          fmt::format("wait for samples of epoch {}", hand_out_.epoch()));
    }
    return looked;
  }

 private:
  Result<bool> holds_and_can_push() const {
    FFDL_ASSIGN_OR_RETURN(const uint64_t ranges, learner_.ranges_left());
    return !leases().empty() && ranges > 0;
  }

  Status look(uint64_t count) {
    const uint64_t partitions = std::max(wanted_, rules_.data.partitions_for(count));
    const std::vector<SampleRange> in_use = not_pushed();
    return hand_out_.look(board_, std::min(partitions, base::kLeasesMax), in_use, [this] {
      if (on_stable_) tell_newest();
    });
  }

  std::vector<SampleRange> not_pushed() const {
    std::vector<SampleRange> rest;
    for (SampleRange range : taken_) {
      const auto pushed = learner_.pushed(range.partition);
      if (pushed.ok()) range.begin = std::max(range.begin, *pushed);
      if (range.begin < range.end) rest.push_back(range);
    }
    return rest;
  }

  void tell_newest() {
    for (const Publication& newest : learner_.publications()) tell(newest);
  }

  void tell(const Publication& made) {
    CommittedStep step;
    step.step = kStepsOfSequence * made.sequence + static_cast<uint64_t>(made.slot);
    const Member member{.id = fmt::format("slot-{}", made.slot)};
    for (SampleRange range : made.samples) {
      if (range.partition >= data().partitions()) continue;  // of a larger server, and not ours
      const uint64_t samples = data().samples_of(range.partition);
      // The end of one epoch and the beginning of the next may be neighbours.
      while (range.begin < range.end) {
        const uint64_t end = std::min(range.end, (range.begin / samples + 1) * samples);
        step.parts.push_back({member, {range.partition, range.begin, end}});
        range.begin = end;
      }
    }
    if (!step.parts.empty()) on_stable_(step);
  }

  Learner& learner_;
  data::ServerBoard board_;
  const data::LedgerRules rules_;
  const std::function<void(const CommittedStep&)> on_stable_;
  const uint64_t wanted_;
  data::HandOut hand_out_;
  std::vector<SampleRange> taken_{};
};

Result<std::unique_ptr<SlotLedger>> SlotLedger::create(const PartitionLedgerOptions& options,
                                                       Learner& learner) {
  FFDL_RETURN_IF_ERROR(data::check_options(options));
  if (options.order != SampleOrder::kOnDemand) {
    return invalid_argument(
        "make a slot ledger: the order is global, which needs members that step together; use "
        "SampleOrder::kOnDemand, or a session");
  }
  const uint32_t partitions = data::rules_of(options).data.partitions();
  if (partitions > learner.partitions()) {
    return invalid_argument(
        "make a slot ledger: {} samples in partitions of {} are {} partitions, and the server has "
        "{}; create it with ParameterServerOptions::partitions",
        options.samples, options.partition_samples, partitions, learner.partitions());
  }
  return std::unique_ptr<SlotLedger>(new SlotLedger(std::make_unique<Impl>(options, learner)));
}

SlotLedger::SlotLedger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SlotLedger::~SlotLedger() = default;

Result<std::vector<SampleRange>> SlotLedger::take(uint64_t count) { return impl_->take(count); }
uint64_t SlotLedger::taken() const { return impl_->taken(); }
const std::vector<SampleRange>& SlotLedger::leases() const { return impl_->leases(); }
Status SlotLedger::wait(Time deadline) { return impl_->wait(deadline); }
uint64_t SlotLedger::samples() const { return impl_->data().samples; }
uint64_t SlotLedger::epoch() const { return impl_->hand_out().epoch(); }
uint64_t SlotLedger::committed() const { return impl_->committed(); }
bool SlotLedger::is_done() const { return impl_->hand_out().is_done(); }
Result<std::vector<uint64_t>> SlotLedger::sample_indices(
    std::span<const SampleRange> ranges) const {
  return data::look_up(ranges, impl_->data());
}

}  // namespace ffdl
