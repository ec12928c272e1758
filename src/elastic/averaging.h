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
#include "elastic/step_message.h"
#include "elastic/user_memory.h"
#include "ffdl/communicator.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// What one operation averages: buffers of one dtype, in their order. A bucket is whole as soon as
// it has `bytes`, or where the dtype changes; 0: only there.
std::vector<std::span<const Buffer>> cut_buckets(std::span<const Buffer> gradients, uint64_t bytes);

// The same memory as one buffer where that can be, which `joined` is then: a back end may work on
// it where it lies. `bucket` has buffers of one dtype, at least one.
std::span<const Buffer> join_neighbours(std::span<const Buffer> bucket, Buffer& joined);

// The operations of a step, in their order: the members tell each other their messages, then each
// bucket of gradients is averaged, weighted by the samples in the messages. They run on the thread
// of whoever calls gather() and average(); of a step that was begun early a task runs the first of
// them before that, one by one, so that which operations there are never depends on it.
// Threads: one; the task is this object's own. Owns: the task, from the first start() on.
class Averaging {
 public:
  struct Seams {
    Runtime& runtime;
    std::function<Status()> standing;  // asked before each operation; not ok: it is not begun
    std::function<Time()> deadline;    // of one that begins now
    base::Gpu gpu{};                   // in whose memory the gradients lie, if in one's
  };

  // `buckets` and `messages` outlive this.
  Averaging(const std::vector<std::span<const Buffer>>& buckets, StepMessages& messages,
            Seams seams);
  ~Averaging();  // an operation that is under way must be about to end

  // The first `end` buffers hold the mean over `samples` samples in the present step. Errors:
  // kInvalidArgument (more than there are, or other samples than were said before).
  Status note(size_t end, uint64_t samples);
  // What was noted of the present step; nothing if it was not begun.
  std::optional<uint64_t> noted_samples() const { return noted_samples_; }

  // The task may begin what has been noted, with this message of the member first.
  void start(std::shared_ptr<Communicator> communicator, std::span<std::byte> message);
  bool has_started() const { return communicator_ != nullptr; }
  // It may go on, up to what has been noted by now.
  void go_on();
  // It ends the operation that it is in, and begins no other. False: it was still in it at
  // `deadline`.
  bool pause(Time deadline);

  // Not while the task may run operations. Blocks until the others have come, or the deadline.
  // `samples` are those of `message`; where there are none, the gradients become zeros.
  // Errors: those of the operations, of the task's too; the step is to be dropped then.
  Status gather(Communicator& communicator, std::span<std::byte> message, uint64_t samples);
  bool has_gathered() const { return operations_done() > 0; }
  Status average(Communicator& communicator);
  // Of this step.
  size_t buckets_averaged() const;
  // Whether the gradients are what they were given as.
  bool is_intact() const;
  // The step has ended, or failed: the next one begins.
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

  // Of the user's thread. The first two do not change while the task may run operations.
  std::shared_ptr<Communicator> communicator_;  // null: the task has no part in this step
  std::span<std::byte> message_;
  size_t noted_end_ = 0;
  std::optional<uint64_t> noted_samples_;
  bool gives_zeros_ = false;  // its gradients are zeros already

  mutable base::Mutex mutex_;
  size_t done_ FFDL_GUARDED_BY(mutex_) = 0;     // operations of this step; messages are the first
  size_t allowed_ FFDL_GUARDED_BY(mutex_) = 0;  // how far the task may go in them
  bool is_in_turn_ FFDL_GUARDED_BY(mutex_) = false;
  bool is_intact_ FFDL_GUARDED_BY(mutex_) = true;
  Status failed_ FFDL_GUARDED_BY(mutex_);

  const std::unique_ptr<Event> may_go_on_;
  const std::unique_ptr<Event> has_paused_;
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
