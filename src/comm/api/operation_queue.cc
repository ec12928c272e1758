#include "ffdl/comm/operation_queue.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace ffdl {

using base::make_error;

class OperationQueue::Impl {
 public:
  Impl(Communicator& communicator, size_t operations_max)
      : communicator_(communicator), operations_max_(operations_max) {
    if (operations_max == 0) {
      begun_ = base::invalid_argument(
          "start an operation: its queue was made with operations_max 0; give 1 or more");
      return;
    }
    auto thread = base::Thread::start("ffdl-collective", [this](const StopToken&) { serve(); });
    begun_ = thread.status();
    if (thread.ok()) thread_ = std::move(thread).value();
  }
  ~Impl();

  Result<Ticket> start(const Operation& operation, Time deadline);
  bool done(Ticket ticket, Time deadline);
  Status wait(Ticket ticket);

 private:
  struct Started {
    Operation operation;  // its spans refer to the two lists
    std::vector<Buffer> in;
    std::vector<Buffer> out;
    Time deadline;
    std::optional<Status> outcome;
  };

  void serve();
  // Returns the oldest operation that has not run, or null when there will be no other.
  Started* next();

  Communicator& communicator_;
  const size_t operations_max_;
  base::Mutex mutex_;
  base::Condition changed_;
  Status begun_;  // not ok: there is no thread, and no operation can be started
  std::map<Ticket, Started> started_ FFDL_GUARDED_BY(mutex_);  // not waited for yet
  Ticket last_ FFDL_GUARDED_BY(mutex_) = 0;
  Ticket ended_ FFDL_GUARDED_BY(mutex_) = 0;  // all up to this ticket have run
  bool closing_ FFDL_GUARDED_BY(mutex_) = false;
  base::Thread thread_;  // last: it uses all of the above
};

OperationQueue::Impl::~Impl() {
  bool unfinished = false;
  {
    base::MutexLock lock(mutex_);
    closing_ = true;
    unfinished = ended_ != last_;
    changed_.notify_all();
  }
  if (unfinished) {
    communicator_.abort(Status(StatusCode::kCancelled, "its queue of operations was closed"));
  }
  thread_.join();
}

Result<OperationQueue::Ticket> OperationQueue::Impl::start(const Operation& operation,
                                                           Time deadline) {
  FFDL_RETURN_IF_ERROR(begun_);
  base::MutexLock lock(mutex_);
  if (started_.size() >= operations_max_) {
    return make_error(
        StatusCode::kExhausted,
        "start an operation: {} operations were started and not waited for; wait for some of them",
        started_.size());
  }
  Started& fresh = started_[++last_];
  fresh.operation = operation;
  fresh.in.assign(operation.in.begin(), operation.in.end());
  fresh.out.assign(operation.out.begin(), operation.out.end());
  fresh.operation.in = fresh.in;
  fresh.operation.out = fresh.out;
  fresh.deadline = deadline;
  changed_.notify_all();
  return last_;
}

// Returns a pointer that stays valid: map nodes do not move, and wait() erases only operations that
// ran.
OperationQueue::Impl::Started* OperationQueue::Impl::next() {
  base::MutexLock lock(mutex_);
  while (ended_ == last_ && !closing_) changed_.wait(mutex_);
  return ended_ == last_ ? nullptr : &started_.at(ended_ + 1);
}

void OperationQueue::Impl::serve() {
  while (Started* started = next()) {
    Status outcome = communicator_.run(started->operation, started->deadline);
    base::MutexLock lock(mutex_);
    started->outcome = std::move(outcome);
    ++ended_;
    changed_.notify_all();
  }
}

bool OperationQueue::Impl::done(Ticket ticket, Time deadline) {
  base::MutexLock lock(mutex_);
  while (ended_ < ticket) {
    if (!changed_.wait_until(mutex_, deadline)) return false;
  }
  return true;
}

Status OperationQueue::Impl::wait(Ticket ticket) {
  base::MutexLock lock(mutex_);
  while (true) {
    const auto found = started_.find(ticket);
    if (found == started_.end()) {
      return make_error(StatusCode::kNotFound,
                        "wait for operation {}: it was never started, or has been waited for",
                        ticket);
    }
    if (found->second.outcome.has_value()) {
      Status outcome = std::move(*found->second.outcome);
      started_.erase(found);
      return outcome;
    }
    changed_.wait(mutex_);
  }
}

OperationQueue::OperationQueue(Communicator& communicator, size_t operations_max)
    : impl_(std::make_unique<Impl>(communicator, operations_max)) {}
OperationQueue::~OperationQueue() = default;

Result<OperationQueue::Ticket> OperationQueue::start(const Operation& operation, Time deadline) {
  return impl_->start(operation, deadline);
}

bool OperationQueue::done(Ticket ticket, Time deadline) { return impl_->done(ticket, deadline); }

Status OperationQueue::wait(Ticket ticket) { return impl_->wait(ticket); }

}  // namespace ffdl
