#include "ffdl/listener.h"

#include <chrono>
#include <memory>
#include <utility>

#include "bindings.h"
#include "buffers.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct ListenerHandle {
  std::unique_ptr<Listener> listener;
  bool busy = false;
};

// What is wrong may pass until the deadline, so a piece that has ended is none.
std::unique_ptr<ListenerHandle> attach_listener(const World& world, Store& store,
                                                double timeout_s) {
  Status why;
  auto made = wait(timeout_s, [&](Time deadline) -> Result<std::unique_ptr<Listener>> {
    auto attached = Listener::attach(world, store, deadline);
    if (attached.ok() || std::chrono::steady_clock::now() < deadline) return attached;
    why = attached.status();
    return Status(StatusCode::kTimeout, "attach");
  });
  if (made.status().code() == StatusCode::kTimeout) check(why);
  return std::make_unique<ListenerHandle>(take(std::move(made)));
}

uint64_t next(ListenerHandle& handle, const py::object& out, double timeout_s) {
  const Exclusive one_thread(handle.busy);
  const Elements sum = elements_to_write(out, "out");
  return take(
      wait(timeout_s, [&](Time deadline) { return handle.listener->next(sum.buffers, deadline); }));
}

}  // namespace

void bind_listener(py::module_& module) {
  py::class_<ListenerHandle>(module, "Listener",
                             R"(Receives the sums of a running world without being a member.

What its all_reduce gives, on the same host: a newcomer applies the gradients of the others while
it is still being given their state. The members, who have called open_to_listeners(), wait for no
listener: one that is slow loses its place. One thread at a time; lets other threads run, and ends
on Ctrl-C. The header is ffdl/listener.h.)")
      .def_static("attach", &attach_listener, py::arg("world"), py::arg("store"),
                  py::arg("timeout_s") = kDefaultTimeoutS,
                  R"(Waits until the members of `world`, whose rank does not count, have opened.

Hears every sum whose all_reduce begins afterwards. Raises Timeout (nobody has opened), Unavailable
(rank 0 is gone, or is of another user or pid namespace), and what Store does.)")
      .def("next", &next, py::arg("out"), py::arg("timeout_s") = kDefaultTimeoutS,
           R"(Waits for the next sum and copies it to `out`; returns its number, counted from 0.

Raises Timeout and InvalidArgument (another count or dtype), after which it may be called again;
and what stays: Exhausted (it lost its place: drop what it received, attach again), PeerLost (a
member died or failed before it had given its share), WorldChanged (a member has left, or closed to
listeners: attach to the next world).)");
}

}  // namespace ffdl::python
