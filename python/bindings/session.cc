#include "ffdl/session.h"

#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "checkpoint_options.h"
#include "ffdl/launch_environment.h"
#include "ledger_handle.h"
#include "record.h"
#include "session_handle.h"
#include "shared_memory.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_session_values(py::module_& module) {
  py::native_enum<StepResult>(module, "StepResult", "enum.Enum",
                              R"(What became of a step.

CONTINUE: it was applied. WORLD_CHANGED: it was applied, and the next one has other members.
RETRY_STEP: it was not: compute the gradients again, of the samples that are due now. HEALED: it
was not, and the state is that of others now: drop what was computed. LEFT: this member is out of
the job, as it asked or as another has taken over; the step counts if Session.step has moved.)")
      .value("CONTINUE", StepResult::kContinue)
      .value("WORLD_CHANGED", StepResult::kWorldChanged)
      .value("RETRY_STEP", StepResult::kRetryStep)
      .value("HEALED", StepResult::kHealed)
      .value("LEFT", StepResult::kLeft)
      .finalize();
  py::native_enum<Recovery>(
      module, "Recovery", "enum.Enum",
      "What those who are left go on from when a member dies that has not said that it goes.\n\n"
      "FORWARD: the newest step that any of them holds. CONSISTENT: the newest checkpoint that "
      "was\n"
      "published, all of them; where there is none, the initial state.")
      .value("FORWARD", Recovery::kForward)
      .value("CONSISTENT", Recovery::kConsistent)
      .finalize();
  Record<SessionStats>(
      module, "SessionStats",
      "What one Session has done. steps: applied here; retried_steps: that were not, and\n"
      "came again. early_buckets: averaged before end_step() was called. worlds: entered.\n"
      "healed: how often it took the state over. bytes_received, bytes_sent: of state.\n"
      "checkpoints: published, with a share of this member; dropped_checkpoints: with\n"
      "one, but nothing came of them.")
      .field("steps", &SessionStats::steps)
      .field("retried_steps", &SessionStats::retried_steps)
      .field("early_buckets", &SessionStats::early_buckets)
      .field("worlds", &SessionStats::worlds)
      .field("healed", &SessionStats::healed)
      .field("bytes_received", &SessionStats::bytes_received)
      .field("bytes_sent", &SessionStats::bytes_sent)
      .field("checkpoints", &SessionStats::checkpoints)
      .field("dropped_checkpoints", &SessionStats::dropped_checkpoints);
}

// What Session.open() was given beside arrays and functions. None: what `ffdl run` says, or the
// default.
struct GivenToOpen {
  py::object store;
  std::optional<std::string> id;
  std::optional<std::string> job;
  std::optional<int> min_workers;
  std::optional<int> max_workers;
  std::optional<std::string> takes_over_from;
};

// The store: that of the caller, or of the job that started this process.
Store& choose_store(const GivenToOpen& given, const std::optional<JobEnvironment>& environment,
                    SessionHandle& handle) {
  handle.given_store = given.store;
  if (py::isinstance<Store>(given.store)) return given.store.cast<Store&>();
  if (!given.store.is_none()) {
    throw py::type_error("open a session: 'store' is " + py::repr(given.store).cast<std::string>() +
                         "; give a Store, e.g. ffdl.open_store(url)");
  }
  if (!environment) {
    raise_invalid_argument(
        "open a session: there is no store, and FFDL_STORE is not set; start the program by "
        "'ffdl run', or, where it is alone, give store=ffdl.open_store('mem://') and an id");
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
}

void take_participants(const py::sequence& given, SessionHandle& handle, SessionOptions& options) {
  for (const py::handle one : given) {
    if (!py::isinstance<ParticipantHandle>(one)) {
      throw py::type_error("open a session: 'participants' are StepParticipants, not " +
                           py::repr(one).cast<std::string>());
    }
    auto& participant = one.cast<ParticipantHandle&>();
    handle.participants.emplace_back(py::reinterpret_borrow<py::object>(one), &participant);
    options.participants.push_back(&participant.participant());
  }
}

// Of a ledger that is a participant, which the handle keeps.
void take_shares(const py::object& given, const SessionHandle& handle, SessionOptions& options) {
  if (given.is_none()) return;
  for (const auto& [object, participant] : handle.participants) {
    if (!object.is(given) || !py::isinstance<LedgerHandle>(given)) continue;
    const uint64_t counted = given.cast<LedgerHandle&>().micro_batch_samples;
    if (counted != options.micro_batch_samples) {
      raise_invalid_argument("open a session: 'micro_batch_samples' is " +
                             std::to_string(options.micro_batch_samples) +
                             ", and the ledger was created with " + std::to_string(counted) +
                             "; give both the same");
    }
    options.micro_batch_shares = [ledger = given.cast<LedgerHandle&>().ledger.get()] {
      return ledger->shares();
    };
    return;
  }
  throw py::type_error("open a session: 'micro_batch_shares' is " +
                       py::repr(given).cast<std::string>() +
                       "; give the PartitionLedger that is among the participants");
}

void take_checkpoints(const py::object& given, SessionHandle& handle, SessionOptions& options) {
  if (given.is_none()) return;
  if (!py::isinstance<CheckpointOptionsHandle>(given)) {
    throw py::type_error("open a session: 'checkpoints' is " + py::repr(given).cast<std::string>() +
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

// Arrays tell which GPU they lie in, and a session has one.
void take_device(const Elements& arrays, const char* name, CommunicatorOptions& options) {
  if (!arrays.device) return;
  const std::string doing = "open a session: '" + std::string(name) + "' ";
  if (!reaches_devices(options.backend)) {
    raise_invalid_argument(doing +
                           "lies in a GPU's memory, and the backend works in the host's; give "
                           "backend=Backend.NCCL or Backend.DEVICE_SHM, or arrays of the CPU");
  }
  if (options.device != kDeviceInUse && *arrays.device != kDeviceInUse &&
      options.device != *arrays.device) {
    raise_invalid_argument(doing + "lies in the memory of GPU " + std::to_string(*arrays.device) +
                           ", and this member's is GPU " + std::to_string(options.device) +
                           "; give all that lies in a GPU's memory to one, and name it or none");
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
  options.communicator.look = [behind = handle.get()] { return behind->look(); };
  SessionHandle& session = *handle;
  take(run_session(session, [&]() -> Result<bool> {
    FFDL_ASSIGN_OR_RETURN(session.session, Session::open(options, session.trainable, store));
    return true;
  }));
  return handle;
}

constexpr const char* kOpenDoc =
    R"(Joins the job; returns when a world has formed and its state is here.

state: arrays of all that members hold in common: weights, what the optimizer keeps, counters.
Changed by `apply` alone, and the same memory for the session's life. gradients: arrays that a step
averages, of floating point. Both as Communicator takes them, of the same shapes at all members.
apply(): the gradients hold the mean over all samples of the step; takes the state one step on, to
the same bits at all members. on_world(world): from here on the members are these.
begin_anew(): brings the state to what it was when the session was opened, for a job that nobody
holds the state of any more; without it the session ends then, and its process may be started
again. These three are called inside calls of the session, on its thread; what they raise ends the
session and comes out of that call.
participants: StepParticipants, the same kinds in the same order at all members.
micro_batch_shares: a PartitionLedger of them, with SampleOrder.GLOBAL. Gradients are then given
one micro-batch at a time (add_micro_batch), of `micro_batch_samples` samples if whole, and the
state has the same bits whatever the number of members.
bucket_bytes: not 0: gradients may be averaged while later ones are computed (begin_average), as
many at a time, in their order and of one dtype, as have so many bytes; the same at all members.
shared_memory: arrays of shared_array(), or SharedMemory, that the gradients lie in: where a bucket
is the whole of one, the members of one host average it where it lies, which is faster.
checkpoints: CheckpointOptions, for a job that loses all its members and for the next one; written
beside the training. None: none.
recovery: what those who are left go on from when a member dies; the same at all members.
store: None for that of the job that `ffdl run` has started this process for; id, job, min_workers,
max_workers and takes_over_from are then what it has told, where they are None (job_environment()).
id: of this member; a new life has the same.
address: the IP address of this host at which members on others reach it.
backend: with NCCL and DEVICE_SHM arrays may lie in the memory of a GPU: the gradients all or none,
of the state each as it likes. What the default stream was given before a call, and in `apply` and
begin_anew, comes first; wait for other streams there. What adds up and measures gradients is given
to the default stream, too; sums, and a state that was taken over, are there for all streams.
device: the GPU of this member; -1: that of its arrays. gpu_worlds: with NCCL, the same at all
members: where the connections between the GPUs of the next world come from (docs/gpu.md).
verify_state: hash and compare the whole state whenever the world changes.
The times are those of MembershipOptions and SessionOptions; docs/timeouts.md says what for.
Raises InvalidArgument (members that do not fit together: names what differs), Timeout,
Unimplemented (NCCL or DEVICE_SHM, and no GPU, driver, NCCL or CUDA), and what Store does.)";

void bind_session_open(py::class_<SessionHandle>& session) {
  const SessionOptions d;
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
         Backend backend, std::string address, int device, GpuWorlds gpu_worlds, bool verify_state,
         double heartbeat_s, double lease_s, double gather_s, double step_timeout_s,
         double fence_after_s, double operation_timeout_s, double recovery_timeout_s) {
        auto handle = std::make_unique<SessionHandle>();
        handle->trainable.state_arrays = elements_to_write(state, "state", Memory::kAny);
        handle->trainable.gradient_arrays = elements_to_write(gradients, "gradients", Memory::kAny);
        handle->trainable.apply_function = apply;
        handle->trainable.on_world_function = function_or_nothing(on_world);
        handle->trainable.begin_anew_function = function_or_nothing(begin_anew);
        SessionOptions options;
        take_participants(participants, *handle, options);
        options.micro_batch_samples = micro_batch_samples;
        options.bucket_bytes = bucket_bytes;
        for (const auto memory : shared_memory) {
          options.shared_memory.push_back(
              memory_behind(py::reinterpret_borrow<py::object>(memory)));
        }
        take_shares(micro_batch_shares, *handle, options);
        take_checkpoints(checkpoints, *handle, options);
        options.membership.recovery = recovery;
        options.communicator.backend = backend;
        options.communicator.address = std::move(address);
        options.communicator.device = device;
        options.communicator.gpu_worlds = gpu_worlds;
        take_device(handle->trainable.state_arrays, "state", options.communicator);
        take_device(handle->trainable.gradient_arrays, "gradients", options.communicator);
        options.verify_state = verify_state;
        set_times({heartbeat_s, lease_s, gather_s, step_timeout_s, fence_after_s,
                   operation_timeout_s, recovery_timeout_s},
                  options);
        return open_session(std::move(handle),
                            {std::move(store), std::move(id), std::move(job), min_workers,
                             max_workers, std::move(takes_over_from)},
                            std::move(options));
      },
      py::arg("store") = py::none(), py::kw_only(), py::arg("state"), py::arg("gradients"),
      py::arg("apply"), py::arg("on_world") = py::none(), py::arg("begin_anew") = py::none(),
      py::arg("participants") = py::tuple(), py::arg("micro_batch_shares") = py::none(),
      py::arg("micro_batch_samples") = d.micro_batch_samples,
      py::arg("bucket_bytes") = d.bucket_bytes, py::arg("shared_memory") = py::tuple(),
      py::arg("checkpoints") = py::none(), py::arg("recovery") = d.membership.recovery,
      py::arg("id") = py::none(), py::arg("job") = py::none(), py::arg("min_workers") = py::none(),
      py::arg("max_workers") = py::none(), py::arg("takes_over_from") = py::none(),
      py::arg("backend") = d.communicator.backend, py::arg("address") = d.communicator.address,
      py::arg("device") = d.communicator.device, py::arg("gpu_worlds") = d.communicator.gpu_worlds,
      py::arg("verify_state") = d.verify_state,
      py::arg("heartbeat_s") = in_seconds(d.membership.heartbeat),
      py::arg("lease_s") = in_seconds(d.membership.lease),
      py::arg("gather_s") = in_seconds(d.membership.gather),
      py::arg("step_timeout_s") = in_seconds(d.membership.step_timeout),
      py::arg("fence_after_s") = in_seconds(d.membership.fence_after),
      py::arg("operation_timeout_s") = in_seconds(d.operation_timeout),
      py::arg("recovery_timeout_s") = in_seconds(d.recovery_timeout), kOpenDoc);
}

void bind_session_steps(py::class_<SessionHandle>& session) {
  session
      .def(
          "end_step",
          [](SessionHandle& handle, uint64_t samples) {
            Session& used = handle.use();
            return take(run_session(handle, [&] { return used.end_step(samples); }));
          },
          py::arg("samples"),
          R"(Averages the gradients, applies, and changes the world; returns a StepResult.

samples: over how many of this member's the gradients are the mean; 0: they are not read. Called by
all members, also those without samples. Afterwards the gradients are undefined, unless CONTINUE or
WORLD_CHANGED: then they are the mean over all.)")
      .def(
          "add_micro_batch",
          [](SessionHandle& handle, uint64_t samples) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.add_micro_batch(samples); }));
          },
          py::arg("samples"),
          R"(The gradients hold the mean over `samples` samples of this member's next micro-batch.

They are not needed any more: a share that is too large to be computed at once is given in parts,
which end_step() brings together; it is given the sum of their samples, or 0 to drop them. Costs
memory for one more gradient. Raises InvalidArgument (after begin_average).
With `micro_batch_shares` the parts are those of the job; those that are not given are empty. A
step that failed shows in end_step(), as RETRY_STEP or HEALED. Waits for the others in the first
step of a world then. Raises InvalidArgument (more than the share).)")
      .def(
          "begin_average",
          [](SessionHandle& handle, size_t end, uint64_t samples) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.begin_average(end, samples); }));
          },
          py::arg("end"), py::arg("samples"),
          R"(The first `end` gradients hold the mean over `samples` samples of this member's step.

They are not read or written before end_step(), which is given the same number: a thread averages
whole buckets of them from now on. With `bucket_bytes` alone, as often as one likes; the sums are
the same without it, and other members need not call it. A step that failed shows in end_step(), as
RETRY_STEP or HEALED. Does not wait. Raises InvalidArgument (there are fewer gradients, or other
samples were given in this step).)")
      .def(
          "finish",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.finish(); }));
          },
          "The training is done: makes the last step stable, and leaves. Called by all members\n"
          "after the same step. Raises WorldChanged where a member died and, with\n"
          "Recovery.CONSISTENT, all went back: train on.");
}

void bind_session_pauses(py::class_<SessionHandle>& session) {
  session
      .def(
          "suspend",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.suspend(); }));
          },
          R"(Between two steps, for work of another kind on the GPUs: their memory is given back.

What the communicator keeps of it, until resume() (Communicator.suspend says what that is). All
members call both after the same step, newcomers too, and nothing else of the session in between.
What happens to others shows in the next end_step(). Raises InvalidArgument in the middle of a
step.)")
      .def(
          "resume",
          [](SessionHandle& handle) {
            Session& used = handle.use();
            check(run_session(handle, [&] { return used.resume(); }));
          },
          "Takes the memory again that suspend() gave back; waits for all members.");
}

void bind_session_rest(py::class_<SessionHandle>& session) {
  session
      .def(
          "request_checkpoint",
          [](SessionHandle& handle) {
            handle.expect_no_fork();
            without_lock([&] { handle.session->request_checkpoint(); });
          },
          "A checkpoint shall be taken after the next step, or soon after: while one is being\n"
          "written no other is begun. From any thread.")
      .def(
          "checkpoint_status",
          [](const SessionHandle& handle) {
            handle.expect_no_fork();
            check(without_lock([&] { return handle.session->checkpoint_status(); }));
          },
          "Raises why nothing came of the last checkpoint of this member, such as Exhausted for a\n"
          "full disk; nothing if it was published, or there was none. From any thread.")
      .def(
          "ask_to_leave",
          [](SessionHandle& handle) { without_lock([&] { handle.session->ask_to_leave(); }); },
          "Asks to be left out: end_step() goes on as before until it returns LEFT. From any\n"
          "thread, and from the handler of a signal.")
      .def(
          "standing", [](const SessionHandle& handle) { check(handle.use().standing()); },
          "Raises what the calls above would, where this life of the member is over.")
      .def_property_readonly("self", [](const SessionHandle& h) { return h.use().self(); })
      .def_property_readonly("world", [](const SessionHandle& h) { return h.use().world(); })
      .def_property_readonly("step", [](const SessionHandle& h) { return h.use().step(); })
      .def_property_readonly("stats", [](const SessionHandle& h) { return h.use().stats(); });
}

// Functions that a session is given often know it: the collector must see through.
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
  bind_session_values(module);
  py::class_<SessionHandle> session(module, "Session", py::custom_type_setup(&be_collected),
                                    R"(One member of an elastic job.

    ledger = ffdl.PartitionLedger.create(samples=len(x), order=ffdl.SampleOrder.GLOBAL,
                                         batch_samples=64, epochs=3)
    session = ffdl.Session.open(state=[weights], gradients=[gradient], apply=descend,
                                participants=[ledger])
    while not ledger.is_done:
        samples = ledger.sample_indices(ledger.take())
        compute(samples, gradient)  # the mean over them
        if session.end_step(ledger.taken) == ffdl.StepResult.LEFT:
            break
    else:
        session.finish()

Members come, go and die between steps, and each sample is committed once per epoch. A newcomer
takes part in one step without samples before open() returns. A member that dies ends nobody's
session. world: the World of the next step. step: how many have been applied since the job began.
self: this life of the member, a Member. stats: a SessionStats.
One thread; ask_to_leave() from any. Every call that waits lets other threads run and ends on
Ctrl-C, which ends the session.
Raises InvalidArgument (members do not fit together), Cancelled (this member was fenced, replaced
or reported dead: drop the state), Timeout (no world worked), Internal (equal steps, unequal
states). After an error the session is over. The header is ffdl/session.h.)");
  bind_session_open(session);
  bind_session_steps(session);
  bind_session_pauses(session);
  bind_session_rest(session);
}

}  // namespace ffdl::python
