#include "ffdl/comm/operation_queue.h"

#include <unistd.h>

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/comm/collectives.h"
#include "bindings/comm/communicator_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

using Ticket = OperationQueue::Ticket;

// The contents of a Python OperationQueue. It has exclusive use of its communicator while it lives.
class QueueHandle {
 public:
  QueueHandle(py::object communicator, size_t operations_max)
      : communicator_(std::move(communicator)),
        handle_(communicator_.cast<CommunicatorHandle&>()),
        nobody_else_(handle_.busy),
        queue_(std::make_unique<OperationQueue>(*handle_.communicator, operations_max)) {
    if (operations_max == 0) {
      raise_invalid_argument("make a queue of operations: operations_max is 0; give 1 or more");
    }
  }
  ~QueueHandle();
  QueueHandle(const QueueHandle&) = delete;
  QueueHandle& operator=(const QueueHandle&) = delete;

  int rank() const { return handle_.communicator->world().rank; }
  Ticket start(Request request, Time deadline);
  OperationQueue& queue();
  // Returns the result of an operation that has ended. Called once per operation.
  Status outcome(Ticket ticket);
  // Marks an operation as one with no caller for its result.
  void forget(Ticket ticket) { forgotten_.push_back(ticket); }

 private:
  void drop_forgotten();

  const py::object communicator_;
  CommunicatorHandle& handle_;
  const Exclusive nobody_else_;
  const pid_t process_ = getpid();
  std::map<Ticket, Request> started_;  // keeps the arrays until an operation has ended
  std::vector<Ticket> forgotten_;
  std::unique_ptr<OperationQueue> queue_;
};

QueueHandle::~QueueHandle() {
  if (process_ != getpid()) {
    static_cast<void>(queue_.release());  // a fork: it lacks the thread that the destructor would
                                          // join
    return;
  }
  py::gil_scoped_release others_may_run;
  queue_.reset();
}

OperationQueue& QueueHandle::queue() {
  if (process_ != getpid()) {
    raise(Status(
        StatusCode::kCancelled,
        "use an operation queue: this process is a fork of the one that made it; connect and "
        "make another in the child"));
  }
  return *queue_;
}

Ticket QueueHandle::start(Request request, Time deadline) {
  OperationQueue& to = queue();
  drop_forgotten();
  handle_.expect_reach(request.in);
  handle_.expect_reach(request.out);
  const Ticket ticket = take(to.start(request.operation(), deadline));
  started_.emplace(ticket, std::move(request));
  return ticket;
}

Status QueueHandle::outcome(Ticket ticket) {
  Status outcome = queue().wait(ticket);
  started_.erase(ticket);
  return outcome;
}

// Drops the results of forgotten operations. A failure is not lost: the communicator stays failed.
void QueueHandle::drop_forgotten() {
  std::erase_if(forgotten_, [this](Ticket ticket) {
    if (!queue_->done(ticket)) return false;
    static_cast<void>(outcome(ticket));
    return true;
  });
}

// The contents of a Python Ticket.
class TicketHandle {
 public:
  TicketHandle(py::object queue, Ticket ticket)
      : owner_(std::move(queue)), queue_(owner_.cast<QueueHandle&>()), ticket_(ticket) {}
  ~TicketHandle() {
    if (!outcome_) queue_.forget(ticket_);
  }
  TicketHandle(const TicketHandle&) = delete;
  TicketHandle& operator=(const TicketHandle&) = delete;

  bool done() { return outcome_ || queue_.queue().done(ticket_); }
  void wait(double timeout_s);

 private:
  const py::object owner_;
  QueueHandle& queue_;
  const Ticket ticket_;
  std::optional<Status> outcome_;
};

void TicketHandle::wait(double timeout_s) {
  OperationQueue& queue = queue_.queue();
  if (!outcome_) {
    check(python::wait(timeout_s, [&](Time deadline) -> Status {
      if (queue.done(ticket_, deadline)) return {};
      return {StatusCode::kTimeout, "wait for operation " + std::to_string(ticket_) +
                                        ": it has not ended, and continues; wait longer, or abort "
                                        "its communicator"};
    }));
  }
  if (!outcome_) outcome_ = queue_.outcome(ticket_);  // another thread may have waited, too
  check(*outcome_);
}

py::object start(const py::object& self, Request request, double timeout_s) {
  const Ticket ticket =
      self.cast<QueueHandle&>().start(std::move(request), deadline_after(timeout_s));
  return py::cast(std::make_unique<TicketHandle>(self, ticket));
}

int rank_of_queue(const py::object& self) { return self.cast<const QueueHandle&>().rank(); }

}  // namespace

void bind_operation_queue(py::module_& module) {
  py::class_<TicketHandle>(module, "Ticket", R"(An operation that an OperationQueue has started.

It may be dropped: the operation continues and keeps its arrays.)")
      .def("done", &TicketHandle::done,
           "True if it has ended, with or without an error. Does not\n"
           "wait.")
      .def("wait", &TicketHandle::wait,
           py::arg("timeout_s") = std::numeric_limits<double>::infinity(),
           R"(Waits until it has ended, which the operation's own `timeout_s` bounds.

Raises the error of the operation, the same one each time. Raises Timeout too if it has not ended
by then; it continues. Ctrl-C ends the wait, not the operation.)");
  py::class_<QueueHandle> queue(module, "OperationQueue",
                                R"(Runs operations of one Communicator beside compute.

    first = queue.all_reduce(gradient_of_layer_2)
    compute_gradient_of(layer_1)
    first.wait()

The methods are those of Communicator and return at once, with a Ticket. Operations run one after
another in the order in which they were started. That order must be the same at every rank.
`timeout_s` counts from the start. Do not touch the arrays until wait() returns. While the queue
exists, no other caller may run operations of its communicator, or register memory with it. If an
operation has not ended when the queue is destroyed, the communicator is aborted. All methods
from any thread. Raises Exhausted: operations_max have been started and not waited for. The
header is ffdl/comm/operation_queue.h.)");
  queue.def(py::init([](py::object communicator, size_t operations_max) {
              static_cast<void>(communicator.cast<CommunicatorHandle&>());
              return std::make_unique<QueueHandle>(std::move(communicator), operations_max);
            }),
            py::arg("communicator"), py::kw_only(), py::arg("operations_max") = 1024);
  bind_collectives(queue, {&start, &rank_of_queue});
}

}  // namespace ffdl::python
