#include "ffdl/comm/all_reduce_subscriber.h"

#include <chrono>
#include <memory>
#include <utility>

#include "bindings/base/buffers.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct AllReduceSubscriberHandle {
  std::unique_ptr<AllReduceSubscriber> listener;
  bool busy = false;
};

// An error may pass before the deadline, so a piece that has ended is not an error.
std::unique_ptr<AllReduceSubscriberHandle> attach_subscriber(const World& world, Store& store,
                                                             double timeout_s) {
  Status why;
  auto made = wait(timeout_s, [&](Time deadline) -> Result<std::unique_ptr<AllReduceSubscriber>> {
    auto attached = AllReduceSubscriber::attach(world, store, deadline);
    if (attached.ok() || std::chrono::steady_clock::now() < deadline) return attached;
    why = attached.status();
    return Status(StatusCode::kTimeout, "attach");
  });
  if (made.status().code() == StatusCode::kTimeout) check(why);
  return std::make_unique<AllReduceSubscriberHandle>(take(std::move(made)));
}

uint64_t next(AllReduceSubscriberHandle& handle, const py::object& out, double timeout_s) {
  const Exclusive one_thread(handle.busy);
  const Elements sum = elements_to_write(out, "out");
  return take(
      wait(timeout_s, [&](Time deadline) { return handle.listener->next(sum.buffers, deadline); }));
}

}  // namespace

void bind_all_reduce_subscriber(py::module_& module) {
  py::class_<AllReduceSubscriberHandle>(
      module, "AllReduceSubscriber",
      R"(Subscribes to the sums of a running world without being a member.

Receives the all_reduce results of a world on the same host. A newcomer can apply the gradients
of the others while it still receives their state. The members, which have called
open_to_subscribers(), wait for no subscriber: one that is slow loses its place. One thread at a
time; lets other threads run, and ends on Ctrl-C. The header is
ffdl/comm/all_reduce_subscriber.h.)")
      .def_static("attach", &attach_subscriber, py::arg("world"), py::arg("store"),
                  py::arg("timeout_s") = kDefaultTimeoutS,
                  R"(Waits until the members of `world` have opened; its rank does not count.

Receives every sum whose all_reduce begins afterwards. Raises Timeout (the members have not
opened), Unavailable (rank 0 is gone, or belongs to another user or pid namespace), and the
errors of Store.)")
      .def("next", &next, py::arg("out"), py::arg("timeout_s") = kDefaultTimeoutS,
           R"(Waits for the next sum and copies it to `out`; returns its number, counted from 0.

Raises Timeout and InvalidArgument (another count or dtype); then it may be called again. The other
errors are final. Raises Exhausted if it lost its place: drop the received sums, attach again.
Raises PeerLost if a member died or failed before it had contributed its share. Raises WorldChanged
if a member has left, or closed to subscribers: attach to the next world.)");
}

}  // namespace ffdl::python
