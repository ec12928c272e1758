#include "bindings/elastic/session_handle.h"

namespace py = pybind11;

namespace ffdl::python {

void PythonTrainable::apply() {
  raised.in([&] { apply_function(); });
}

void PythonTrainable::on_world(const World& world) {
  if (on_world_function) {
    raised.in([&] { on_world_function(world); });
  }
}

std::string PythonTrainable::name_gradient(size_t gradient, uint64_t element) const {
  std::string name = Trainable::name_gradient(gradient, element);
  if (!name_gradient_function) return name;
  raised.in([&] { name = std::string(py::str(name_gradient_function(gradient, element))); });
  return name;
}

Status PythonTrainable::begin_anew() {
  if (!begin_anew_function) return Trainable::begin_anew();
  raised.in([&] { begin_anew_function(); });
  return raised.status();
}

void SessionHandle::expect_no_fork() const {
  if (process == getpid()) return;
  raise(Status(StatusCode::kCancelled,
               "use a session: this process is a fork of the one that opened it; open another in "
               "the child"));
}

Session& SessionHandle::use() const {
  expect_no_fork();
  const void* const user = inside.load(std::memory_order_relaxed);
  if (user != nullptr && user != this_thread()) {
    raise_invalid_argument(
        "use a session: another thread is inside a call of it; leave it to that thread");
  }
  return *session;
}

void SessionHandle::close() {
  if (process != getpid()) {
    static_cast<void>(session.release());  // a fork: it lacks the tasks that the destructor would
                                           // join
    static_cast<void>(own_store.release());
    return;
  }
  py::gil_scoped_release others_may_run;
  session.reset();
}

Status SessionHandle::look() {
  if (inside.load(std::memory_order_relaxed) != this_thread()) return {};  // a task of the session
  FFDL_RETURN_IF_ERROR(trainable.raised.status());
  for (const auto& [object, one] : participants) {
    FFDL_RETURN_IF_ERROR(one->raised->status());
  }
  if (!on_main_thread()) return {};
  trainable.raised.in([] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
  return trainable.raised.status();
}

InsideSession::InsideSession(SessionHandle& handle) : handle_(handle) {
  if (handle.inside.load(std::memory_order_relaxed) != nullptr) {
    raise_invalid_argument(
        "call a session: a thread is still inside a call of it; wait for that call, and call only "
        "ask_to_leave() from a callback or the handler of a signal");
  }
  for (const auto& [object, one] : handle.participants) {
    if (one->inside == nullptr) continue;
    raise_invalid_argument(
        "call a session: another session uses one of its participants; create participants for "
        "each session");
  }
  for (const auto& [object, one] : handle.participants) one->inside = this_thread();
  handle.inside.store(this_thread(), std::memory_order_relaxed);
}

InsideSession::~InsideSession() {
  for (const auto& [object, one] : handle_.participants) one->inside = nullptr;
  handle_.inside.store(nullptr, std::memory_order_relaxed);
}

}  // namespace ffdl::python
