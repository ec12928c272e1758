#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/buffers.h"
#include "bindings/base/raised.h"
#include "bindings/base/signals.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/elastic/checkpoint_options.h"
#include "bindings/elastic/participant_handle.h"
#include "ffdl/session.h"

namespace ffdl::python {

// Arrays and functions as the state that a session trains. They are kept until the session is gone.
struct PythonTrainable final : Trainable {
  std::vector<Buffer> state() override { return state_arrays.buffers; }
  std::vector<Buffer> gradients() override { return gradient_arrays.buffers; }
  void apply() override;
  void on_world(const World& world) override;
  std::string name_gradient(size_t gradient, uint64_t element) const override;
  Status begin_anew() override;

  Elements state_arrays;
  Elements gradient_arrays;
  pybind11::object apply_function;
  pybind11::object on_world_function;
  pybind11::object begin_anew_function;
  pybind11::object name_gradient_function;
  CheckpointFunctions checkpoint_functions;
  mutable Raised raised;
};

// The contents of a Python Session.
struct SessionHandle {
  SessionHandle() = default;
  ~SessionHandle() { close(); }
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  // Returns the session for the thread that may use it now.
  Session& use() const;
  // Raises an exception in a fork of the process that opened the session: the fork has no tasks.
  void expect_no_fork() const;
  // Closes the session. The other members see a death, unless this member has left.
  void close();
  // Serves as CommunicatorOptions::interrupt_check: returns an error if Python code, signal
  // handlers included, has raised an exception.
  Status look();
  // Returns the result of a call, or throws the exception that was raised in it.
  template <class T>
  T outcome(T result) {
    trainable.raised.rethrow();
    for (const auto& [object, one] : participants) one->raised->rethrow();
    return result;
  }

  const pid_t process = getpid();
  pybind11::object given_store;  // if None, `own_store` is used
  std::unique_ptr<Store> own_store;
  std::vector<std::pair<pybind11::object, ParticipantHandle*>> participants;
  PythonTrainable trainable;
  std::unique_ptr<Session> session;
  // The thread inside a call. relaxed: a reader only asks if it is that thread itself, and that
  // thread wrote the value.
  std::atomic<const void*> inside = nullptr;
};

// Held while a thread is inside a call that may wait.
class InsideSession {
 public:
  explicit InsideSession(SessionHandle& handle);
  ~InsideSession();
  InsideSession(const InsideSession&) = delete;
  InsideSession& operator=(const InsideSession&) = delete;

 private:
  SessionHandle& handle_;
};

// Runs `call()`, which may wait, without the interpreter lock.
template <class Call>
auto run_session(SessionHandle& handle, Call&& call) {
  const InsideSession inside(handle);
  return handle.outcome(without_lock(call));
}

}  // namespace ffdl::python
