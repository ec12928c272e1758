#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "buffers.h"
#include "checkpoint_options.h"
#include "ffdl/session.h"
#include "participant_handle.h"
#include "raised.h"
#include "signals.h"
#include "status.h"
#include "waiting.h"

namespace ffdl::python {

// Arrays and functions as what a session trains. Kept, with the arrays, until the session is gone.
struct PythonTrainable final : Trainable {
  std::vector<Buffer> state() override { return state_arrays.buffers; }
  std::vector<Buffer> gradients() override { return gradient_arrays.buffers; }
  void apply() override;
  void on_world(const World& world) override;
  Status begin_anew() override;

  Elements state_arrays;
  Elements gradient_arrays;
  pybind11::object apply_function;
  pybind11::object on_world_function;
  pybind11::object begin_anew_function;
  CheckpointFunctions checkpoint_functions;
  Raised raised;
};

// What a Python Session holds.
struct SessionHandle {
  SessionHandle() = default;
  ~SessionHandle() { close(); }
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  // For the thread whose turn it is.
  Session& use() const;
  // Raises in a fork of the process that opened it, where its tasks are not.
  void expect_no_fork() const;
  // The others see a death, unless this member has left.
  void close();
  // For CommunicatorOptions::look: what Python code has raised, signal handlers included.
  Status look();
  // What came of a call, or what was raised in it.
  template <class T>
  T outcome(T result) {
    trainable.raised.rethrow();
    for (const auto& [object, one] : participants) one->raised->rethrow();
    return result;
  }

  const pid_t process = getpid();
  pybind11::object given_store;  // None: `own_store` is used
  std::unique_ptr<Store> own_store;
  std::vector<std::pair<pybind11::object, ParticipantHandle*>> participants;
  PythonTrainable trainable;
  std::unique_ptr<Session> session;
  // The thread inside a call. relaxed: who asks only wants to know whether it is itself, which it
  // would have written.
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
