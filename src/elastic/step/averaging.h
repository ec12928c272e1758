#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "base/mutex.h"
#include "elastic/state/user_memory.h"
#include "elastic/step/step_message.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Splits gradients into buckets, in order. One operation averages one bucket, whose buffers have
// one dtype. A bucket is complete once it has `bytes`, or where the dtype changes; 0: only there.
std::vector<std::span<const Buffer>> cut_buckets(std::span<const Buffer> gradients, uint64_t bytes);

// Returns adjacent buffers as the one buffer `joined` if possible, so that a back end may work on
// it in place. `bucket` has buffers of one dtype, at least one.
std::span<const Buffer> join_neighbours(std::span<const Buffer> bucket, Buffer& joined);

// Runs the operations of a step, in order. Members exchange their messages, then each bucket of
// gradients is averaged, weighted by the samples in the messages. Operations run on the thread that
// calls gather() and average(). For a step that was begun early, a task runs the first operations
// before that, one by one. So the list of operations never depends on the task.
// Threads: one; the task is internal. Owns: the task, from the first start() on.
class Averaging {
 public:
  struct Seams {
    Runtime& runtime;
    std::function<Status()> standing;  // asked before each operation; not ok: it does not begin
    std::function<Time()> deadline;    // of an operation that begins now
    base::Gpu gpu{};                   // the one with the gradients in its memory, if any
  };

  // Requires that `buckets` and `messages` outlive this object.
  Averaging(const std::vector<std::span<const Buffer>>& buckets, StepMessages& messages,
            Seams seams);
  ~Averaging();  // requires that a running operation is about to end

  // Records that the first `end` buffers hold the mean over `samples` samples in the present step.
  // Errors: kInvalidArgument (more buffers than there are, or another number of samples than
  // before).
  Status note(size_t end, uint64_t samples);
  // Returns the recorded samples of the present step; nothing if it was not begun.
  std::optional<uint64_t> noted_samples() const { return noted_samples_; }

  // Lets the task begin the recorded operations, first the exchange of this member's message.
  void start(std::shared_ptr<Communicator> communicator, std::span<std::byte> message);
  bool has_started() const { return communicator_ != nullptr; }
  // Lets the task continue up to what is recorded by now.
  void go_on();
  // Stops the task after its present operation. Returns false if that still runs at `deadline`.
  bool pause(Time deadline);

  // Exchanges the messages. Requires that the task runs no operations. Blocks until the other
  // members have arrived, or the deadline. `samples` are those of `message`; if there are none, the
  // gradients become zeros.
  // Errors: those of the operations, including the task's; the step must be dropped then.
  Status gather(Communicator& communicator, std::span<std::byte> message, uint64_t samples);
  bool has_gathered() const { return operations_done() > 0; }
  Status average(Communicator& communicator);
  // Returns the number of buckets averaged in this step.
  size_t buckets_averaged() const;
  // Reports whether the gradients are unchanged since the caller passed them.
  bool is_intact() const;
  // Begins the next step, after this one has ended or failed.
  void drop();

 private:
  size_t operations_noted() const;
  size_t operations_done() const;
  void serve(const StopToken& stop);
  std::optional<size_t> next_turn();
  void end_turn(Status outcome);
  Status run_until(size_t end, Communicator& communicator);
  Status run(Communicator& communicator, size_t operation);
  Status average_one(Communicator& communicator, std::span<const Buffer> bucket);

  const std::vector<std::span<const Buffer>>& buckets_;
  StepMessages& messages_;
  const Seams seams_;

  // Used by the user's thread. The first two do not change while the task may run operations.
  std::shared_ptr<Communicator> communicator_;  // null: the task takes no part in this step
  std::span<std::byte> message_;
  size_t noted_end_ = 0;
  std::optional<uint64_t> noted_samples_;
  bool gives_zeros_ = false;  // the gradients are zeros already

  mutable base::Mutex mutex_;
  size_t done_ FFDL_GUARDED_BY(mutex_) = 0;     // operations of this step; the first is gather
  size_t allowed_ FFDL_GUARDED_BY(mutex_) = 0;  // limit of the operations that the task may run
  bool is_in_turn_ FFDL_GUARDED_BY(mutex_) = false;
  bool is_intact_ FFDL_GUARDED_BY(mutex_) = true;
  Status failed_ FFDL_GUARDED_BY(mutex_);

  const std::unique_ptr<Event> may_go_on_;
  const std::unique_ptr<Event> has_paused_;
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
