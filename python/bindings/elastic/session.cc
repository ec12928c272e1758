#include "ffdl/session.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/status.h"
#include "bindings/base/type_name.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/data/ledger_handle.h"
#include "bindings/elastic/checkpoint_options.h"
#include "bindings/elastic/session_handle.h"
#include "bindings/shm/shared_memory.h"
#include "ffdl/launch/environment.h"
#include "ffdl/membership.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// The arguments of Session.open() beside arrays and functions. None: the value from `ffdl run`, or
// the default.
struct GivenToOpen {
  py::object store;
  std::optional<std::string> id;
  std::optional<std::string> job;
  std::optional<int> min_workers;
  std::optional<int> max_workers;
  std::optional<std::string> takes_over_from;
  std::optional<OnLostState> on_lost_state;
};

// Returns the store: the caller's, or that of the job that started this process.
Store& choose_store(const GivenToOpen& given, const std::optional<JobEnvironment>& environment,
                    SessionHandle& handle) {
  handle.given_store = given.store;
  if (py::isinstance<Store>(given.store)) return given.store.cast<Store&>();
  if (!given.store.is_none()) {
    throw py::type_error("open a session: 'store' is of type " + type_name(given.store) +
                         "; give a Store, e.g. ffdl.open_store(url)");
  }
  if (!environment) {
    raise_invalid_argument(
        "open a session: there is no store, and FFDL_STORE is not set; start the program by 'ffdl "
        "run', or, for a single process, give store=ffdl.open_store('mem://') and an id");
  }
  handle.own_store = take(without_lock([&] {
    return open_store(environment->store_url, system_runtime(),
                      {.secret = environment->store_secret});
  }));
  return *handle.own_store;
}

void set_membership(const GivenToOpen& given, const std::optional<JobEnvironment>& environment,
                    SessionOptions& options) {
  const JobEnvironment told = environment.value_or(JobEnvironment{});
  options.self.id = given.id.value_or(told.worker_id);
  options.membership.job = given.job.value_or(told.job);
  options.membership.min_workers = given.min_workers.value_or(told.min_workers);
  options.membership.max_workers = given.max_workers.value_or(told.max_workers);
  options.membership.takes_over_from = given.takes_over_from.value_or(told.takes_over_from);
  options.membership.on_lost_state = given.on_lost_state.value_or(told.on_lost_state);
}

SessionOptions::OnFence parse_on_fence(const std::string& name) {
  if (name == "rejoin") return SessionOptions::OnFence::kRejoin;
  if (name == "end") return SessionOptions::OnFence::kEnd;
  raise_invalid_argument("open a session: on_fence is '" + name + "'; give 'rejoin' or 'end'");
}

void take_participants(const py::sequence& given, SessionHandle& handle, SessionOptions& options) {
  for (const py::handle one : given) {
    if (!py::isinstance<ParticipantHandle>(one)) {
      throw py::type_error("open a session: one of 'participants' is of type " + type_name(one) +
                           "; give StepParticipants");
    }
    auto& participant = one.cast<ParticipantHandle&>();
    handle.participants.emplace_back(py::reinterpret_borrow<py::object>(one), &participant);
    options.participants.push_back(&participant.participant());
  }
}

// Takes the shares of a ledger that is a participant, which the handle keeps.
void take_shares(const py::object& given, const SessionHandle& handle, SessionOptions& options) {
  if (given.is_none()) return;
  for (const auto& [object, participant] : handle.participants) {
    if (!object.is(given) || !py::isinstance<LedgerHandle>(given)) continue;
    const uint64_t counted = given.cast<LedgerHandle&>().micro_batch_samples;
    if (counted != options.micro_batch_samples) {
      raise_invalid_argument("open a session: 'micro_batch_samples' is " +
                             std::to_string(options.micro_batch_samples) +
                             ", and the ledger was created with " + std::to_string(counted) +
                             "; use one value for both");
    }
    options.micro_batch_shares = [ledger = &given.cast<LedgerHandle&>().ledger()] {
      return ledger->shares();
    };
    return;
  }
  throw py::type_error("open a session: 'micro_batch_shares' is of type " + type_name(given) +
                       "; give the SampleLedger that is among the participants");
}

void take_checkpoints(const py::object& given, SessionHandle& handle, SessionOptions& options) {
  if (given.is_none()) return;
  if (!py::isinstance<CheckpointOptionsHandle>(given)) {
    throw py::type_error("open a session: 'checkpoints' is of type " + type_name(given) +
                         "; give CheckpointOptions");
  }
  options.checkpoints = handle.trainable.checkpoint_functions.use(
      given.cast<CheckpointOptionsHandle&>(), handle.trainable.raised);
}

Duration seconds(const char* name, double given) {
  if (!(given >= 0 && given < 1e9)) {
    raise_invalid_argument("open a session: '" + std::string(name) + "' is " +
                           std::to_string(given) + " s; give seconds >= 0");
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(given));
}

// Sets the GPU that the arrays are in; a session has one.
void take_device(const Elements& arrays, const char* name, CommunicatorOptions& options) {
  if (!arrays.device) return;
  const std::string doing = "open a session: '" + std::string(name) + "' ";
  if (!reaches_devices(options.backend)) {
    raise_invalid_argument(doing +
                           "is in a GPU's memory, and the backend uses the host's; give "
                           "backend=Backend.NCCL or Backend.DEVICE_SHM, or arrays of the CPU");
  }
  if (options.device != kDeviceInUse && *arrays.device != kDeviceInUse &&
      options.device != *arrays.device) {
    raise_invalid_argument(doing + "is in the memory of GPU " + std::to_string(*arrays.device) +
                           ", but this member uses GPU " + std::to_string(options.device) +
                           "; put all GPU arrays into the memory of one GPU, and set 'device' to "
                           "that GPU or leave it out");
  }
  options.device = std::max(options.device, *arrays.device);
}

py::object function_or_nothing(const py::object& given) {
  return given.is_none() ? py::object() : given;
}

struct Times {
  double heartbeat_s;
  double lease_s;
  double gather_s;
  double step_timeout_s;
  double fence_after_s;
  double operation_timeout_s;
  double recovery_timeout_s;
};

CommunicatorOptions communicator_options(Backend backend, std::string address, bool tls, int device,
                                         GpuWorlds gpu_worlds) {
  return {.backend = backend,
          .address = std::move(address),
          .tls = tls,
          .device = device,
          .gpu_worlds = gpu_worlds};
}

void set_times(const Times& times, SessionOptions& options) {
  options.membership.heartbeat = seconds("heartbeat_s", times.heartbeat_s);
  options.membership.lease = seconds("lease_s", times.lease_s);
  options.membership.gather = seconds("gather_s", times.gather_s);
  options.membership.step_timeout = seconds("step_timeout_s", times.step_timeout_s);
  options.membership.fence_after = seconds("fence_after_s", times.fence_after_s);
  options.operation_timeout = seconds("operation_timeout_s", times.operation_timeout_s);
  options.recovery_timeout = seconds("recovery_timeout_s", times.recovery_timeout_s);
}

std::unique_ptr<SessionHandle> open_session(std::unique_ptr<SessionHandle> handle,
                                            const GivenToOpen& given, SessionOptions options) {
  const bool is_told = given.store.is_none();
  const auto environment = is_told ? take(job_environment()) : std::optional<JobEnvironment>();
  Store& store = choose_store(given, environment, *handle);
  set_membership(given, environment, options);
  options.communicator.interrupt_check = [behind = handle.get()] { return behind->look(); };
  SessionHandle& session = *handle;
  bool is_job_done = false;  // and its last state is not available
  const auto opened = run_session(session, [&]() -> Result<bool> {
    auto made = Session::open(options, session.trainable, store);
    if (made.status().code() == StatusCode::kNotFound) {
      const auto job = read_job(store, options.membership.job);
      is_job_done = job.ok() && job->completion.has_value();
    }
    FFDL_RETURN_IF_ERROR(Status(made.status()));
    session.session = std::move(made).value();
    return true;
  });
  if (is_job_done) raise_job_done(opened.status());
  take(opened);
  return handle;
}

constexpr const char* kOpenDoc =
    R"(Joins the job; returns when a world has formed and this member has its state.

state: arrays of all that members hold in common: weights, the optimizer's state, counters. Only
`apply` changes them, and they stay in the same memory for the session's life.
gradients: arrays that a step averages, of floating point. They and the state are arrays as
Communicator takes them, of the same shapes at all members.
apply: called when the gradients hold the mean over all samples of the step. It advances the state
by one step, to the same bits at all members.
on_world: called with the World when the members have changed.
begin_anew: resets the state to that at the opening of the session, for a job in which no member
holds the state any more. Without it the session ends then, and its process may be started again.
These three functions are called inside calls of the session, on its thread. Their exceptions end
the session and are raised by that call.
participants: StepParticipants, the same kinds in the same order at all members.
micro_batch_shares: a SampleLedger of them, with SampleOrder.GLOBAL. Gradients are then added
one micro-batch at a time (add_micro_batch), of `micro_batch_samples` samples if whole. The state
has the same bits for any number of members.
bucket_bytes: not 0: gradients may be averaged while later ones are computed (begin_average). A
bucket has consecutive gradients of one dtype, of that many bytes; the same at all members.
shared_memory: arrays of shared_array(), or SharedMemory, that hold the gradients. A bucket that
is the whole of one is averaged in place by the members of one host, which is faster.
checkpoints: CheckpointOptions, for a job that loses all its members and for the next one;
written beside the training. None: no checkpoints.
recovery: the state from which the remaining members continue when a member dies; the same at all
members.
on_lost_state: the fate of a job whose state no member and no checkpoint has any more; the same
at all members. None: the value from `ffdl run`, or RESTART.
on_fence: the action of this member after it did not reach the store for `fence_after_s`. "rejoin":
it continues as a new member with the same id, and keeps its state unless others have a newer one;
end_step() then returns HEALED, RETRY_STEP or, if the gradients still count, WORLD_CHANGED. "end":
its session ends with Cancelled.
A job that is done stays done: then the state here is its last one, from a member or a
checkpoint, and is_finished is true. Raises JobDone if that state does not exist any more; if it is
not caught, the process ends with 0. Use begin_again() to let the job train again.
store: None for that of the job that `ffdl run` has started this process for. Arguments that are
None are then those of `ffdl run`: id, job, min_workers, max_workers and takes_over_from
(job_environment()).
id: of this member; a new life has the same.
address: the IP address of this host at which members on others reach it.
tls: encrypts the connections between members by TLS 1.3, as FFDL_TLS=1 does; the same at all.
backend: with NCCL and DEVICE_SHM arrays may be in the memory of a GPU: the gradients all or
none, each array of the state independently. The session's work follows the work that was queued
on the default stream before a call, and in `apply` and begin_anew. Wait for other streams there.
Work that adds up and measures gradients is queued on the default stream, too. Sums, and a state
that was received, are ready for all streams.
device: the GPU of this member; -1: that of its arrays.
gpu_worlds: with NCCL, the same at all members: the source of the connections between the GPUs of
the next world (docs/guide/gpu.md).
non_finite: the treatment of a step whose mean gradient holds NaN or Inf, the same at all
members. REJECT ends the session at all of them by InvalidArgument, with the state unchanged.
SKIP changes no state, and the step counts: its samples are used. ACCEPT does not check.
name_gradient: called with an index and an element; returns a text that names this element of
`gradients` in errors.
verify_state: hash and compare the whole state whenever the world changes.
The times are those of MembershipOptions and SessionOptions; docs/reference/timeouts.md describes
them.
Raises Timeout, InvalidArgument (members that do not fit together; it names the difference), and the
errors of Store. Raises Unimplemented for NCCL or DEVICE_SHM without a GPU, driver, NCCL or CUDA.)";

void bind_session_open(py::class_<SessionHandle>& session) {
  const SessionOptions d;
  const MembershipOptions& m = d.membership;
  const auto in_seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  session.def_static(
      "open",
      [](py::object store, const py::object& state, const py::object& gradients,
         const py::function& apply, const py::object& on_world, const py::object& begin_anew,
         const py::sequence& participants, const py::object& micro_batch_shares,
         uint64_t micro_batch_samples, uint64_t bucket_bytes, const py::sequence& shared_memory,
         const py::object& checkpoints, Recovery recovery, std::optional<std::string> id,
         std::optional<std::string> job, std::optional<int> min_workers,
         std::optional<int> max_workers, std::optional<std::string> takes_over_from,
         std::optional<OnLostState> on_lost_state, const std::string& on_fence, Backend backend,
         std::string address, bool tls, int device, GpuWorlds gpu_worlds, NonFinite non_finite,
         const py::object& name_gradient, bool verify_state, double heartbeat_s, double lease_s,
         double gather_s, double step_timeout_s, double fence_after_s, double operation_timeout_s,
         double recovery_timeout_s) {
        auto handle = std::make_unique<SessionHandle>();
        handle->trainable.state_arrays = elements_to_write(state, "state", Memory::kAny);
        handle->trainable.gradient_arrays = elements_to_write(gradients, "gradients", Memory::kAny);
        handle->trainable.apply_function = apply;
        handle->trainable.on_world_function = function_or_nothing(on_world);
        handle->trainable.begin_anew_function = function_or_nothing(begin_anew);
        handle->trainable.name_gradient_function = function_or_nothing(name_gradient);
        SessionOptions options;
        take_participants(participants, *handle, options);
        options.micro_batch_samples = micro_batch_samples;
        options.bucket_bytes = bucket_bytes;
        for (const auto one : shared_memory) {
          options.shared_memory.push_back(memory_behind(py::reinterpret_borrow<py::object>(one)));
        }
        take_shares(micro_batch_shares, *handle, options);
        take_checkpoints(checkpoints, *handle, options);
        options.membership.recovery = recovery;
        options.on_fence = parse_on_fence(on_fence);
        options.communicator =
            communicator_options(backend, std::move(address), tls, device, gpu_worlds);
        take_device(handle->trainable.state_arrays, "state", options.communicator);
        take_device(handle->trainable.gradient_arrays, "gradients", options.communicator);
        options.non_finite = non_finite;
        options.verify_state = verify_state;
        set_times({heartbeat_s, lease_s, gather_s, step_timeout_s, fence_after_s,
                   operation_timeout_s, recovery_timeout_s},
                  options);
        return open_session(std::move(handle),
                            {std::move(store), std::move(id), std::move(job), min_workers,
                             max_workers, std::move(takes_over_from), on_lost_state},
                            std::move(options));
      },
      py::arg("store") = py::none(), py::kw_only(), py::arg("state"), py::arg("gradients"),
      py::arg("apply"), py::arg("on_world") = py::none(), py::arg("begin_anew") = py::none(),
      py::arg("participants") = py::tuple(), py::arg("micro_batch_shares") = py::none(),
      py::arg("micro_batch_samples") = d.micro_batch_samples,
      py::arg("bucket_bytes") = d.bucket_bytes, py::arg("shared_memory") = py::tuple(),
      py::arg("checkpoints") = py::none(), py::arg("recovery") = m.recovery,
      py::arg("id") = py::none(), py::arg("job") = py::none(), py::arg("min_workers") = py::none(),
      py::arg("max_workers") = py::none(), py::arg("takes_over_from") = py::none(),
      py::arg("on_lost_state") = py::none(), py::arg("on_fence") = "rejoin",
      py::arg("backend") = d.communicator.backend,
      py::arg("address") = d.communicator.address, py::arg("tls") = d.communicator.tls,
      py::arg("device") = d.communicator.device, py::arg("gpu_worlds") = d.communicator.gpu_worlds,
      py::arg("non_finite") = d.non_finite, py::arg("name_gradient") = py::none(),
      py::arg("verify_state") = d.verify_state, py::arg("heartbeat_s") = in_seconds(m.heartbeat),
      py::arg("lease_s") = in_seconds(m.lease), py::arg("gather_s") = in_seconds(m.gather),
      py::arg("step_timeout_s") = in_seconds(m.step_timeout),
      py::arg("fence_after_s") = in_seconds(m.fence_after),
      py::arg("operation_timeout_s") = in_seconds(d.operation_timeout),
      py::arg("recovery_timeout_s") = in_seconds(d.recovery_timeout), kOpenDoc);
}

void bind_session_steps(py::class_<SessionHandle>& session) {
  session
      .def(
          "end_step",
          [](SessionHandle& handle, std::optional<uint64_t> samples) {
            Session& used = handle.use();
            return take(run_session(
                handle, [&] { return samples ? used.end_step(*samples) : used.end_step(); }));
          },
          py::arg("samples") = py::none(),
          R"(Averages the gradients, applies, and changes the world; returns a StepResult.

samples: the number of this member's samples over which the gradients are the mean. None: the
number that the ledger among the participants gave this member for the step. With a ledger any
other number raises InvalidArgument, except 0: then the gradients are not read, and the ledger's
samples are committed without a gradient. Called by all members, also those without samples.
Afterwards the gradients are the mean over all after CONTINUE or WORLD_CHANGED, else undefined.)")
      .def(
          "add_micro_batch",
          [](SessionHandle& handle, uint64_t samples) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.add_micro_batch(samples); }));
          },
          py::arg("samples"),
          R"(Adds this member's next micro-batch; the gradients are the mean over `samples` samples.

The arrays are free afterwards. A share that is too large to be computed at once is passed in
parts, which end_step() combines. Pass end_step() the sum of their samples, or 0 to drop them. Needs
memory for one more gradient. Raises InvalidArgument (after begin_average).
With `micro_batch_shares` the parts are those of the job; parts that are missing are empty. A
step that failed shows in end_step(), as RETRY_STEP or HEALED. Waits for the others in the first
step of a world then. Raises InvalidArgument (more than the share).)")
      .def(
          "begin_average",
          [](SessionHandle& handle, size_t end, uint64_t samples) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.begin_average(end, samples); }));
          },
          py::arg("end"), py::arg("samples"),
          R"(Starts averaging the first `end` gradients, the mean over `samples` samples.

The caller must not read or write them before end_step(), which takes the same number: a thread
averages whole buckets of them from now on. Needs `bucket_bytes`; may be called any number of
times. The sums are the same without it, and other members need not call it. A step that failed
shows in end_step(), as RETRY_STEP or HEALED. Does not wait. Raises InvalidArgument (there are
fewer gradients, or other samples were passed in this step).)")
      .def(
          "finish",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.finish(); }));
          },
          "Ends the training: makes the last step stable, takes a checkpoint of it with\n"
          "CheckpointOptions.at_end, records that the job is done, and leaves. Called by all\n"
          "members after the same step. Raises WorldChanged if members died and the others have\n"
          "an earlier state, of a member or of a checkpoint: train on from `step`.");
}

void bind_session_pauses(py::class_<SessionHandle>& session) {
  session
      .def(
          "suspend",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.suspend(); }));
          },
          R"(Frees the communicator's GPU memory between two steps, for other work on the GPUs.

Lasts until resume() (see Communicator.suspend for that memory). All members call both after the
same step, newcomers too, and make no other call of the session in between. Changes at other
members show in the next end_step(). Raises InvalidArgument in the middle of a step.)")
      .def(
          "resume",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.resume(); }));
          },
          "Allocates the memory again that suspend() freed; waits for all members.");
}

void bind_session_rest(py::class_<SessionHandle>& session) {
  session
      .def(
          "request_checkpoint",
          [](SessionHandle& handle) {
            handle.expect_no_fork();
            without_lock([&] { handle.session->request_checkpoint(); });
          },
          "Requests a checkpoint after the next step, or soon after: while one is being written\n"
          "no other is started. From any thread.")
      .def(
          "checkpoint_status",
          [](const SessionHandle& handle) {
            handle.expect_no_fork();
            check(without_lock([&] { return handle.session->checkpoint_status(); }));
          },
          "Raises the error of this member's last checkpoint, such as Exhausted for a full disk;\n"
          "nothing if it was published, or there was none. From any thread.")
      .def(
          "ask_to_leave",
          [](SessionHandle& handle) { without_lock([&] { handle.session->ask_to_leave(); }); },
          "Requests to leave: end_step() continues as before until it returns LEFT. From any\n"
          "thread, and from the handler of a signal.")
      .def(
          "life_status",
          [](const SessionHandle& handle) {
            const Session& used = handle.use();
            check(without_lock([&] { return used.life_status(); }));
          },
          "Raises the errors of the calls above if this life of the member is over.")
      .def_property_readonly("self", [](const SessionHandle& h) { return h.use().self(); })
      .def_property_readonly("world", [](const SessionHandle& h) { return h.use().world(); })
      .def_property_readonly("step", [](const SessionHandle& h) { return h.use().step(); })
      .def_property_readonly("stats", [](const SessionHandle& h) { return h.use().stats(); })
      .def_property_readonly("is_finished",
                             [](const SessionHandle& h) { return h.use().is_finished(); });
}

// Visits the functions of a session for the garbage collector. They often refer to the session, so
// the collector must see them.
template <class Visit>
int visit_functions(SessionHandle& handle, Visit&& visit) {
  for (const py::object* function :
       {&handle.trainable.apply_function, &handle.trainable.on_world_function,
        &handle.trainable.begin_anew_function, &handle.trainable.checkpoint_functions.metric,
        &handle.trainable.checkpoint_functions.note}) {
    if (const int result = visit(function->ptr()); result != 0) return result;
  }
  return 0;
}

void be_collected(PyHeapTypeObject* heap_type) {
  PyTypeObject& type = heap_type->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    return visit_functions(py::cast<SessionHandle&>(py::handle(self)), [&](PyObject* function) {
      return function == nullptr ? 0 : visit(function, arg);
    });
  };
  type.tp_clear = [](PyObject* self) {
    if (!py::detail::is_holder_constructed(self)) return 0;
    auto& handle = py::cast<SessionHandle&>(py::handle(self));
    handle.close();
    handle.trainable.apply_function = {};
    handle.trainable.on_world_function = {};
    handle.trainable.begin_anew_function = {};
    handle.trainable.checkpoint_functions = {};
    return 0;
  };
}

}  // namespace

void bind_session(py::module_& module) {
  py::class_<SessionHandle> session(module, "Session", py::custom_type_setup(&be_collected),
                                    R"(One member of an elastic job.

    ledger = ffdl.make_session_ledger(samples=len(x), order=ffdl.SampleOrder.GLOBAL,
                                      batch_samples=64, epochs=3)
    session = ffdl.Session.open(state=[weights], gradients=[gradient], apply=descend,
                                participants=[ledger])
    while not ledger.is_done:
        samples = ledger.sample_indices(ledger.take())
        compute(samples, gradient)  # the mean over them
        if session.end_step() == ffdl.StepResult.LEFT:
            break
    else:
        session.finish()

Members join, leave and die between steps, and each sample is committed once per epoch. A
newcomer takes part in one step without samples before open() returns. The death of a member ends
no other member's session.

world: the World of the next step.
step: the number of steps that were applied since the job began.
self: this process as a Member: its id and its incarnation.
stats: a SessionStats.
is_finished: the job is done, and the state is its last one. finish() has returned here, or this
member joined after the end. Then finish() does nothing and end_step() returns LEFT.

One thread; ask_to_leave() from any. Every call that waits lets other threads run and ends on
Ctrl-C, which ends the session.
Raises Timeout (no world worked), InvalidArgument (members do not fit together) and Internal (equal
steps, unequal states). Raises Cancelled if this member was replaced or reported dead, or fenced
with on_fence="end". After an error the session is over. The header is ffdl/session.h.)");
  module.def(
      "begin_again",
      [](Store& store, const std::string& job) {
        check(without_lock([&] { return begin_again(store, job); }));
      },
      py::arg("store"), py::arg("job"),
      "Clears the end of a job that is done: its next members train it again from its initial\n"
      "state. Does nothing if it is not done. `ffdl run --again` does the same.");
  module.def(
      "record_server_end",
      [](Store& store, const std::string& job, const std::string& name, uint64_t version) {
        check(without_lock([&] { return record_server_end(store, job, name, version); }));
      },
      py::arg("store"), py::arg("job"), py::arg("name"), py::arg("version"),
      "Records that the training over this parameter server of the job is done: a later\n"
      "learner has no work left. begin_again() clears it. ParameterServerOptimizer calls it\n"
      "under `ffdl run`, before its server stops.");
  module.def(
      "ended_servers",
      [](Store& store, const std::string& job) {
        return take(without_lock([&] { return read_job(store, job); })).ended_servers;
      },
      py::arg("store"), py::arg("job"),
      "The parameter servers of the job that have ended with their training: name -> version.");
  bind_session_open(session);
  bind_session_steps(session);
  bind_session_pauses(session);
  bind_session_rest(session);
}

}  // namespace ffdl::python
