#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ffdl/runtime.h"
#include "ffdl/status.h"

namespace ffdl::elastic {

// Writes to the store from a task, so that a hanging store does not keep the session's thread
// beyond the end of its life. That thread waits elsewhere or here, and watches its life meanwhile.
// Threads: one; the task is internal. Owns: the task.
class StoreTask {
 public:
  using Write = std::function<Status(const StopToken& stop)>;

  explicit StoreTask(Runtime& runtime) : runtime_(runtime), done_(runtime.make_event()) {}

  // Begins to write. Requires that no task is there. Returns false if no thread is left for it.
  bool start(std::string name, Write write);
  bool has_started() const { return task_ != nullptr; }
  // Reports whether the write has failed. Does not wait.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // Waits for the end of the write. Returns false if it still runs at `deadline`.
  bool wait_until(Time deadline) { return done_->wait_until(deadline); }
  // Returns what the write returned, after its end.
  const Status& outcome() const { return outcome_; }
  // Waits for the task, whose write is asked to stop. Then another one may start.
  void join() { task_.reset(); }

 private:
  Runtime& runtime_;
  const std::unique_ptr<Event> done_;
  Status outcome_;  // written by the task before the two below
  std::atomic<bool> has_failed_ = false;
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
