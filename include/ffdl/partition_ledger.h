#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

enum class Shuffle : uint32_t {
  kNone,        // every epoch as the data set lies
  kPartitions,  // the partitions in another order each epoch, each as it lies
  kSamples,     // and the samples within each partition, or window of partitions
};

enum class SampleOrder : uint32_t {
  // A member is given partitions as it uses them up: a fast one gets more.
  kOnDemand,
  // Each step uses the next `batch_samples` of one order, cut evenly among the members: the same
  // samples in the same step at any number of members, if all take their whole share.
  kGlobal,
};

// What a step committed, in the order of ranks; who had no samples is not there.
struct CommittedStep {
  struct Part {
    Member member{};  // without its address
    SampleRange range{};

    bool operator==(const Part&) const = default;
  };
  uint64_t step = 0;
  std::vector<Part> parts{};
  uint64_t lineage = 1;  // of the world in which it is told (World::lineage)

  // The same, whoever tells it and when.
  bool operator==(const CommittedStep& other) const {
    return step == other.step && parts == other.parts;
  }
};

// The same at all members, but for the last three.
struct PartitionLedgerOptions {
  uint64_t samples = 0;            // of the data set
  uint64_t partition_samples = 0;  // of each partition but the last, which has what is left
  uint64_t epochs = 1;             // 0: as many as can be counted, 2^31
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kPartitions;
  // Of Shuffle::kSamples: the samples of so many partitions, which follow each other in the order
  // of the epoch, are shuffled together, and given out in pieces as large as these partitions. Each
  // window has others in each epoch. As many as there are partitions, or more: all samples
  // together. Samples of a piece lie in all partitions of its window: docs/data.md says what
  // reading them costs, and how to choose it.
  uint64_t window_partitions = 1;
  SampleOrder order = SampleOrder::kOnDemand;
  // Of kGlobal: the samples of one step over all members, and the least part of it that is not cut,
  // of which it is a multiple. Shares are those of even_shares() (micro_batch_sum.h), among those
  // who have gradients: a newcomer has none in its first step (session.h).
  uint64_t batch_samples = 0;
  uint64_t micro_batch_samples = 1;
  // Of kGlobal: the samples of the next step, where that may change while the job trains; they are
  // rounded down to whole micro-batches, of which there is one at least. The order of the samples
  // stays; the steps that it is cut into are others from the next one on. Asked in applied() and
  // world_changed(), so what it tells must have been agreed before: samples() of an AgreedBatch
  // (agreed_batch.h) that stands before the ledger among the participants. None: `batch_samples`.
  std::function<uint64_t()> agreed_batch{};
  // Of kOnDemand: how many partitions this member wants to hold, so that it can read ahead. It gets
  // more, up to 64, if what it last asked take() for needs them; the first step has one.
  int partitions_wanted = 2;
  // Told of each step once it is stable, in order. The same step may be told by every member, and
  // by one again after restore(): it is then equal, or the job began anew from an older checkpoint.
  // Threads: called in stable(). It may not call the ledger.
  std::function<void(const CommittedStep&)> on_stable{};
};

// Which samples each member computes its gradients from, so that each sample is committed once per
// epoch whoever joins, leaves or dies. Part of the state that members hold in common; docs/data.md
// has its rules. It knows samples as numbers and reads nothing.
//   auto ledger = PartitionLedger::create({.samples = n, .partition_samples = 4096, .epochs = 3});
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(batch);           // none: take part in the step with nothing
//     compute_gradients((*ledger)->sample_indices(*ranges));  // and errors, left out here
//     ... the step of the session; it calls applied(), world_changed() and the like
//   }
// Threads: one at a time, that of the session; samples() and sample_indices() from any.
// Blocks: never.
// Errors: kInvalidArgument, and at take() what is wrong with the job.
class FFDL_API PartitionLedger final : public StepParticipant, public SampleLedger {
 public:
  static Result<std::unique_ptr<PartitionLedger>> create(const PartitionLedgerOptions& options);
  ~PartitionLedger() override;
  PartitionLedger(const PartitionLedger&) = delete;
  PartitionLedger& operator=(const PartitionLedger&) = delete;

  // What this member computes its gradient of the present step from: up to `count` samples, the
  // next of what it holds. A step has one answer: asked again it begins at the same sample, so call
  // it once per step, and again for a step that is to be repeated.
  // Errors: kInvalidArgument (a member has other options; `agreed_batch` is agreed on too late),
  // kInternal (one has another state),
  // kExhausted (steps wait for stable()): this member would go on with samples that are not in
  // order. restore() of a good state ends it.
  Result<std::vector<SampleRange>> take(uint64_t count = kAll) override;
  // Of kGlobal: the samples of the present step over all members, but at the end of an epoch, where
  // there may be fewer. Of kOnDemand: 0.
  uint64_t batch_samples() const;
  // The samples that this step commits for this member: its weight in a mean. 0 when what it took
  // is not its own any more, after a change of the world.
  uint64_t taken() const override;
  // Changes with each step.
  const std::vector<SampleRange>& leases() const override;
  // Of kGlobal: if all take their whole shares, nobody comes or goes and the batch stays; of 1024
  // steps at most. Of kOnDemand: none, as leases() say enough.
  std::vector<std::vector<SampleRange>> forecast(size_t steps) override;
  // Of kGlobal: how many micro-batches each rank has of the present step, for
  // SessionOptions::micro_batch_shares (session.h). At the end of an epoch the last of them are
  // short or empty. Of kOnDemand: none.
  std::vector<uint64_t> shares() const;
  // Asks for so many partitions from the next step on (partitions_wanted); 0: for no more at all.
  void want(int partitions);

  uint64_t samples() const override;
  uint64_t epoch() const override;
  uint64_t committed() const override;
  bool is_done() const override;
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override;

  size_t record_bytes() const override;
  void describe(std::span<std::byte> record) override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& world) override;
  // Not if what was taken is another's now, or in one order less than this member's share.
  bool is_contribution_due() const override;
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

 private:
  class Impl;
  explicit PartitionLedger(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
