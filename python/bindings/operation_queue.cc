#include "ffdl/operation_queue.h"

#include <unistd.h>

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "collectives.h"
#include "communicator_handle.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

using Ticket = OperationQueue::Ticket;

// What a Python OperationQueue holds. It has its communicator for itself while it lives.
class QueueHandle {
 public:
  QueueHandle(py::object communicator, size_t operations_max)
      : communicator_(std::move(communicator)),
        handle_(communicator_.cast<CommunicatorHandle&>()),
        nobody_else_(handle_.busy),
        queue_(std::make_unique<OperationQueue>(*handle_.communicator, operations_max)) {}
  ~QueueHandle();
  QueueHandle(const QueueHandle&) = delete;
  QueueHandle& operator=(const QueueHandle&) = delete;

  int rank() const { return handle_.communicator->world().rank; }
  Ticket start(Request request, Time deadline);
  OperationQueue& queue();
  // Once, of an operation that has ended.
  Status outcome(Ticket ticket);
  // Nobody will ask for its outcome.
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
    static_cast<void>(queue_.release());  // a fork: its thread, which it would join, is not here
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

// A failure among them is not lost: the communicator stays failed.
void QueueHandle::drop_forgotten() {
  std::erase_if(forgotten_, [this](Ticket ticket) {
    if (!queue_->done(ticket)) return false;
    static_cast<void>(outcome(ticket));
    return true;
  });
}

// What a Python Ticket holds.
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
                                        ": it has not ended, and goes on; wait longer, or abort "
                                        "its communicator"};
    }));
  }
  if (!outcome_) outcome_ = queue_.outcome(ticket_);  // another thread may have waited too
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

It may be dropped: the operation goes on, and keeps its arrays.)")
      .def("done", &TicketHandle::done, "Whether it has ended, well or not. Does not wait.")
      .def("wait", &TicketHandle::wait,
           py::arg("timeout_s") = std::numeric_limits<double>::infinity(),
           R"(Waits until it has ended, which the operation's own `timeout_s` bounds.

Raises what came of it, each time alike; Timeout too when it has not ended by then, and goes on.
Ctrl-C ends the wait, not the operation.)");
  py::class_<QueueHandle> queue(module, "OperationQueue",
                                R"(Runs operations of one Communicator beside compute.

    first = queue.all_reduce(gradient_of_layer_2)
    compute_gradient_of(layer_1)
    first.wait()

The methods are those of Communicator and return at once, with a Ticket. Operations run one after
another in the order in which they were started, which must be the same at every rank; `timeout_s`
counts from the start. Do not touch the arrays until wait() returns. While the queue is there,
nobody else runs operations of its communicator, or registers memory with it. If an operation has
not ended when the queue goes, the communicator is aborted. All methods from any thread.
Raises Exhausted: operations_max have been started and not waited for. The header is
ffdl/operation_queue.h.)");
  queue.def(py::init([](py::object communicator, size_t operations_max) {
              static_cast<void>(communicator.cast<CommunicatorHandle&>());
              return std::make_unique<QueueHandle>(std::move(communicator), operations_max);
            }),
            py::arg("communicator"), py::kw_only(), py::arg("operations_max") = 1024);
  bind_collectives(queue, {&start, &rank_of_queue});
}

}  // namespace ffdl::python
