#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/device_side.h"
#include "elastic/step/averaging.h"
#include "elastic/step/micro_batches.h"
#include "elastic/step/participant_list.h"
#include "elastic/step/step_message.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The operations of a session's steps: members exchange their messages, then their gradients. The
// subclasses differ in the form in which a member gives its gradients: all at once or in parts, in
// buckets while it computes others, or in micro-batches of the job.
// Threads: one; the task of Averaging is internal. Owns: that task, and what the subclass adds up.
class GradientExchange {
 public:
  struct Options {
    std::span<const Buffer> gradients{};
    uint64_t bucket_bytes = 0;                  // 0: no buckets
    MicroBatches::Shares micro_batch_shares{};  // empty: no micro-batches
    uint64_t micro_batch_samples = 1;
    ParticipantList participants;
    base::Gpu gpu{};  // the one with the gradients in its memory, if any
  };
  struct Seams {
    Runtime& runtime;
    std::function<Status()> life_status;  // called before each operation, from any thread
    std::function<Time()> deadline;       // of an operation that begins now
    // Reports that this member is at its next step, and returns the communicator for it. Called
    // from the session's thread.
    std::function<Result<std::shared_ptr<Communicator>>()> arrive;
  };

  // Makes the exchange for these options. Requires that gradients and participants outlive it.
  static std::unique_ptr<GradientExchange> create(Options options, Seams seams);
  virtual ~GradientExchange() = default;  // requires that a running operation is about to end
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // Returns the runs of gradients that one operation averages.
  const std::vector<std::span<const Buffer>>& buckets() const { return buckets_; }

  // --- the user's calls within a step ---

  // Adds a part of this member's gradients, the mean over `samples` samples. Errors:
  // kInvalidArgument, those of Gpu. A failure of the world is reported by take_failure().
  virtual Status add(uint64_t samples) = 0;
  // Records that the first `end` gradients hold the mean over `samples` samples. Errors:
  // kInvalidArgument (no buckets, parts were added, or other samples than known).
  virtual Status note(size_t end, uint64_t samples);
  // Lets a task run the recorded operations. Calls `first` once in a step, for the communicator
  // and this member's message.
  struct FirstOperation {
    std::shared_ptr<Communicator> communicator;
    std::span<std::byte> message;
  };
  void run_early(const std::function<FirstOperation()>& first);
  // Reports whether operations of this step have been recorded by note().
  bool has_noted() const { return averaging_.noted_samples().has_value(); }
  // Reports whether the present step has gradients.
  virtual bool has_begun() const { return has_noted(); }

  // --- the end of a step ---

  // Checks that `samples` are those of the ledger, of note() and of the parts. Errors:
  // kInvalidArgument.
  Status check_samples(uint64_t samples) const;
  // Sets the gradients to the mean over this member's parts, or drops the parts without `samples`.
  // Errors: those of Gpu.
  virtual Status combine(uint64_t /*samples*/) { return {}; }
  // Returns why add() could not begin the step, once.
  virtual Status take_failure() { return {}; }
  // Begins an attempt at a step: calls `arrive`, and prepares what the gradients need. Errors:
  // those of `arrive` and of a communicator.
  virtual Status begin_step();
  // Stops the task after its present operation. Returns false if that still runs at `deadline`.
  bool pause(Time deadline);

  // Returns the message of this member, valid until the next call.
  std::span<std::byte> describe(const StepHeader& header) { return messages_.describe(header); }
  // Exchanges messages, once in a step. `samples` are those of `message`.
  Status gather(Communicator& communicator, std::span<std::byte> message, uint64_t samples);
  bool has_gathered() const { return averaging_.has_gathered(); }
  const StepMessages& messages() const { return messages_; }
  // Sets the gradients to the mean over all members. Blocks: until all members have come.
  virtual Status average(Communicator& communicator);
  // Reports whether the gradients are unchanged since the caller passed them.
  virtual bool is_intact() const { return averaging_.is_intact(); }
  // Forgets the operations and what was recorded, and begins the next step or attempt. messages()
  // stay those of the last exchange.
  void end_attempt() { averaging_.drop(); }
  // Does that, and drops all sums of the present world's members.
  virtual void change_world() { averaging_.drop(); }

  // Returns the number of buckets averaged before the end of their steps was called.
  uint64_t early_buckets() const { return early_buckets_; }

 protected:
  GradientExchange(const Options& options, Seams seams);

  // Checks the samples of the parts in a step of `samples`.
  virtual Status check_added(uint64_t /*samples*/) const { return {}; }
  Status check_known(std::string_view doing, uint64_t samples) const;

  const Seams seams_;
  const ParticipantList participants_;
  const std::vector<std::span<const Buffer>> buckets_;
  StepMessages messages_;  // the task of `averaging_` writes them
  uint64_t early_buckets_ = 0;
  Averaging averaging_;  // last: its task uses all of the above
};

}  // namespace ffdl::elastic
