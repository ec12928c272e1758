#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

// The batch of a job that somebody outside may change while it trains, such as the autoscaler
// (job_link.h): what one member has heard travels with its next step, and is the batch of all from
// the step after on. Nobody stops, and no step has two batches.
//   auto batch = AgreedBatch::create(64);
//   ... SessionOptions::participants = {batch->get(), ledger.get()} ...
//   batch->want(wanted.batch, wanted.workers);         // as often as one likes
//   auto ranges = ledger->take(batch->share());        // a ledger on demand
// A ledger of one order (SampleOrder::kGlobal) cuts its steps itself, and asks for their batch:
//   options.agreed_batch = [&] { return batch->samples(); };  // PartitionLedgerOptions
//   auto ranges = ledger->take();
// The order of the samples stays as it is; where a step of it ends changes from that step on.
// The learning rate follows by the rules of batch_rule.h, with samples() over the batch that it was
// chosen for.
// Threads: want() from any; otherwise one at a time, that of the session.
// Blocks: never.
// Errors: kInvalidArgument; at restore() kCorrupt.
class FFDL_API AgreedBatch final : public StepParticipant {
 public:
  // `samples`: of a step over all members, until something else is agreed. The same at all.
  static Result<std::unique_ptr<AgreedBatch>> create(uint64_t samples);
  ~AgreedBatch() override;
  AgreedBatch(const AgreedBatch&) = delete;
  AgreedBatch& operator=(const AgreedBatch&) = delete;

  // As soon as the job has `members` members, or at once where it has, a step shall have so many
  // samples. So a batch for a size that the job is about to have changes with the size, not before.
  // Of several members who want something the one with the lowest rank is heard. 0 samples: this
  // member wants nothing.
  void want(uint64_t samples, int members);

  // Of the next step, over all members, and this one's part of it: even_shares(). At all members
  // together they are one batch, but where a newcomer is in its first step, which has none.
  uint64_t samples() const;
  uint64_t share() const;

  size_t record_bytes() const override;
  void describe(std::span<std::byte> record) override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& world) override;
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

 private:
  class Impl;
  explicit AgreedBatch(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
