#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/ledger/ledger_options.h"
#include "data/ledger/partition_assignment.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/learner.h"

namespace ffdl {
namespace {

using base::invalid_argument;

// Learners have at most 254 slots.
constexpr uint64_t kStepsOfSequence = 256;

// The partitions of a server as one of its learners sees them.
class ServerBoard final : public data::PartitionBoard {
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

class PushLedger final : public SampleLedger {
 public:
  PushLedger(const LedgerOptions& options, Learner& learner, const LedgerMemberOptions& member)
      : learner_(learner),
        board_(learner),
        rules_(data::rules_of(options)),
        on_stable_(member.on_stable),
        wanted_(static_cast<uint64_t>(std::max(member.partitions_wanted, 1))),
        hand_out_(rules_.data, rules_.epochs) {
    hand_out_.begin(board_);
    if (!on_stable_) return;
    report_newest();
    learner_.tell_publications([this](const Publication& made) { report(made); });
  }
  ~PushLedger() override {
    if (on_stable_) learner_.tell_publications(nullptr);
    // Samples that were pushed and not published stay the learner's until they are published.
    for (const SampleRange& lease : leases()) {
      if (const Status given = learner_.let_go(lease.partition); !given.ok()) return;
    }
  }
  PushLedger(const PushLedger&) = delete;
  PushLedger& operator=(const PushLedger&) = delete;

  uint64_t samples() const override { return rules_.data.samples; }
  const std::vector<SampleRange>& leases() const override { return hand_out_.leases(); }
  // The values that this learner saw last; committed() reads each partition.
  uint64_t epoch() const override { return hand_out_.epoch(); }
  uint64_t committed() const override { return hand_out_.committed(board_); }
  bool is_done() const override { return hand_out_.is_done(); }
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override {
    return data::look_up(ranges, rules_.data);
  }
  void want(int partitions) override { wanted_ = static_cast<uint64_t>(std::max(partitions, 0)); }

  Result<std::vector<SampleRange>> take(uint64_t count) override {
    FFDL_ASSIGN_OR_RETURN(const uint64_t ranges, learner_.ranges_left());
    FFDL_RETURN_IF_ERROR(look(count));
    taken_ = data::front_of(leases(), count, ranges);
    return taken_;
  }

  uint64_t taken() const override { return data::samples_in(not_pushed()); }

  Status wait(Time deadline) override {
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
    const uint64_t partitions =
        wanted_ == 0 ? 0 : std::max(wanted_, rules_.data.partitions_for(count));
    const std::vector<SampleRange> in_use = not_pushed();
    return hand_out_.look(board_, std::min(partitions, base::kLeasesMax), in_use, [this] {
      if (on_stable_) report_newest();
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

  void report_newest() {
    for (const Publication& newest : learner_.publications()) report(newest);
  }

  void report(const Publication& made) {
    CommittedStep step;
    step.step = kStepsOfSequence * made.sequence + static_cast<uint64_t>(made.slot);
    const Member member{.id = fmt::format("slot-{}", made.slot)};
    for (SampleRange range : made.samples) {
      if (range.partition >= rules_.data.partitions()) continue;  // from a larger server's data set
      const uint64_t samples = rules_.data.samples_of(range.partition);
      // A range may join the end of one epoch and the beginning of the next.
      while (range.begin < range.end) {
        const uint64_t end = std::min(range.end, (range.begin / samples + 1) * samples);
        step.parts.push_back({member, {range.partition, range.begin, end}});
        range.begin = end;
      }
    }
    if (!step.parts.empty()) on_stable_(step);
  }

  Learner& learner_;
  ServerBoard board_;
  const data::LedgerRules rules_;
  const std::function<void(const CommittedStep&)> on_stable_;
  uint64_t wanted_;
  data::HandOut hand_out_;
  std::vector<SampleRange> taken_{};
};

}  // namespace

Result<std::unique_ptr<SampleLedger>> make_push_ledger(const LedgerOptions& options,
                                                       Learner& learner,
                                                       const LedgerMemberOptions& member) {
  FFDL_RETURN_IF_ERROR(data::check_options(options, member));
  if (options.order != SampleOrder::kOnDemand) {
    return invalid_argument(
        "make a push ledger: the order is global, which needs members that step together; use "
        "SampleOrder::kOnDemand, or a session");
  }
  const uint32_t partitions = data::rules_of(options).data.partitions();
  if (partitions > learner.partitions()) {
    return invalid_argument(
        "make a push ledger: {} samples in partitions of {} are {} partitions, and the server has "
        "{}; create it with ParameterServerOptions::partitions",
        options.samples, options.partition_samples, partitions, learner.partitions());
  }
  return std::unique_ptr<SampleLedger>(std::make_unique<PushLedger>(options, learner, member));
}

}  // namespace ffdl
