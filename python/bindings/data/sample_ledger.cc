#include "ffdl/data/sample_ledger.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/data/committed_step.h"
#include "bindings/data/ledger_handle.h"
#include "bindings/elastic/batch_size_controller_handle.h"
#include "bindings/ps/learner_handle.h"
#include "ffdl/store.h"

namespace py = pybind11;

namespace ffdl::python {

StepParticipant& LedgerHandle::participant() const {
  StepParticipant* const participant = ledger().participant();
  if (participant == nullptr) {
    raise_invalid_argument(
        "use a ledger in a session: it commits in a store or with pushes; create it with "
        "make_session_ledger()");
  }
  return *participant;
}

namespace {

// The ledger of a session, for the thread that is inside a call of the session.
struct SessionLedgerHandle final : LedgerHandle {
  SampleLedger& ledger() const override { return *owned; }
  void run(const std::function<void(SampleLedger&)>& call) override {
    expect_own_turn();
    call(*owned);
  }
  void read(const std::function<void(const SampleLedger&)>& call) const override {
    expect_own_turn();
    call(*owned);
  }
  void wait(double /*timeout_s*/) override { expect_own_turn(); }

  std::unique_ptr<SampleLedger> owned;
};

// The ledger in a store. The destructor waits for its task.
struct StoreLedgerHandle final : LedgerHandle {
  ~StoreLedgerHandle() override {
    py::gil_scoped_release others_may_run;
    owned.reset();
  }
  SampleLedger& ledger() const override { return *owned; }
  void run(const std::function<void(SampleLedger&)>& call) override {
    const Exclusive one_thread(busy);
    without_lock([&] { call(*owned); });
    raised->rethrow();
  }
  void read(const std::function<void(const SampleLedger&)>& call) const override { call(*owned); }
  void wait(double timeout_s) override {
    const Exclusive one_thread(busy);
    check(python::wait(timeout_s, [&](Time deadline) { return owned->wait(deadline); }));
  }

  std::unique_ptr<SampleLedger> owned;
  bool busy = false;
};

// The ledger of a learner. The learner owns it, and outlives this object.
struct PushLedgerHandle final : LedgerHandle {
  explicit PushLedgerHandle(LearnerHandle& its_learner) : learner(its_learner) {}
  ~PushLedgerHandle() override {
    // The learner's next call destroys the ledger. Here this object may be inside a call, or on the
    // thread of a push that it would wait for.
    learner.ledger_is_left = true;
    if (learner.busy || learner.pushed) return;
    const Exclusive one_thread(learner.busy);
    drop_ledger(learner);
  }
  SampleLedger& ledger() const override { return *learner.ledger; }
  void run(const std::function<void(SampleLedger&)>& call) override {
    use(learner, [&](Learner&) {
      call(*learner.ledger);
      return true;
    });
  }
  void read(const std::function<void(const SampleLedger&)>& call) const override {
    use_exclusively(learner, [&] {
      call(*learner.ledger);
      return true;
    });
  }
  void wait(double timeout_s) override {
    check(use_until(learner, timeout_s,
                    [&](Learner&, Time deadline) { return learner.ledger->wait(deadline); }));
  }

  LearnerHandle& learner;
};

// Returns the result of `call(ledger)` under the rules of run() and of read().
template <class Call>
auto run(LedgerHandle& handle, Call&& call) {
  std::optional<decltype(call(handle.ledger()))> outcome;
  handle.run([&](SampleLedger& ledger) { outcome.emplace(call(ledger)); });
  return std::move(*outcome);
}
template <class Call>
auto read(const LedgerHandle& handle, Call&& call) {
  std::optional<decltype(call(std::as_const(handle.ledger())))> outcome;
  handle.read([&](const SampleLedger& ledger) { outcome.emplace(call(ledger)); });
  return std::move(*outcome);
}

py::bytes bytes_of(const std::vector<std::byte>& state) {
  return {reinterpret_cast<const char*>(state.data()), state.size()};
}

void bind_ledger_values(py::module_& module) {
  py::native_enum<Shuffle>(module, "Shuffle", "enum.Enum",
                           "The order that changes from epoch to epoch.")
      .value("NONE", Shuffle::kNone)
      .value("PARTITIONS", Shuffle::kPartitions)
      .value("SAMPLES", Shuffle::kSamples)
      .finalize();
  py::native_enum<SampleOrder>(
      module, "SampleOrder", "enum.Enum",
      "ON_DEMAND: members get partitions as they use them up. GLOBAL: each step uses the next\n"
      "`batch_samples` of one order, cut evenly for any number of members.")
      .value("ON_DEMAND", SampleOrder::kOnDemand)
      .value("GLOBAL", SampleOrder::kGlobal)
      .finalize();
  Record<CommittedParts>(module, "CommittedStep",
                         "The commits of a step. parts: of each member that had samples, in\n"
                         "the order of ranks, the Member and its SampleRange. lineage: of the\n"
                         "world that told it, see World. continues: the lineage from which that\n"
                         "one took its first state; 0: the one before.")
      .field("step", &CommittedParts::step)
      .field("parts", &CommittedParts::parts)
      .field("lineage", &CommittedParts::lineage)
      .field("continues", &CommittedParts::continues);
}

using PartitionSamples = std::optional<uint64_t>;  // none: one partition

// Returns the options that all three ledgers take.
LedgerOptions ledger_options(uint64_t samples, PartitionSamples partition_samples, uint64_t epochs,
                             uint64_t seed, Shuffle shuffle, uint64_t window_partitions,
                             SampleOrder order) {
  return {.samples = samples,
          .partition_samples = partition_samples.value_or(samples),
          .epochs = epochs,
          .seed = seed,
          .shuffle = shuffle,
          .window_partitions = window_partitions,
          .order = order};
}

void bind_session_ledger(py::module_& module) {
  const LedgerOptions defaults;
  const LedgerMemberOptions own;
  module.def(
      "make_session_ledger",
      [](uint64_t samples, PartitionSamples partition_samples, uint64_t epochs, uint64_t seed,
         Shuffle shuffle, uint64_t window_partitions, SampleOrder order, uint64_t batch_samples,
         uint64_t micro_batch_samples, const py::object& batch_size_controller,
         int partitions_wanted, const py::object& on_stable) -> std::unique_ptr<LedgerHandle> {
        LedgerOptions options = ledger_options(
            samples, partition_samples, epochs, seed, shuffle, window_partitions, order);
        options.batch_samples = batch_samples;
        options.micro_batch_samples = micro_batch_samples;
        auto handle = std::make_unique<SessionLedgerHandle>();
        LedgerMemberOptions member;
        member.partitions_wanted = partitions_wanted;
        handle->batch_size_controller = batch_size_controller;
        if (!batch_size_controller.is_none()) {
          const BatchSizeController& batch =
              *batch_size_controller.cast<BatchSizeControllerHandle&>().batch;
          member.batch_size_controller = [&batch] { return batch.samples(); };
        }
        handle->on_stable = on_stable;
        member.on_stable = telling(handle->raised, on_stable);
        handle->order = order;
        handle->micro_batch_samples = micro_batch_samples;
        handle->owned = take(make_session_ledger(options, member));
        return handle;
      },
      py::kw_only(), py::arg("samples"), py::arg("partition_samples") = py::none(),
      py::arg("epochs") = defaults.epochs, py::arg("seed") = defaults.seed,
      py::arg("shuffle") = defaults.shuffle,
      py::arg("window_partitions") = defaults.window_partitions, py::arg("order") = defaults.order,
      py::arg("batch_samples") = defaults.batch_samples,
      py::arg("micro_batch_samples") = defaults.micro_batch_samples,
      py::arg("batch_size_controller") = py::none(),
      py::arg("partitions_wanted") = own.partitions_wanted, py::arg("on_stable") = py::none(),
      R"(Makes the SampleLedger of a member of a Session, whose steps commit its samples.

It is a participant of the session; the options but the last three are equal at all members.

    ledger = ffdl.make_session_ledger(
        samples=len(data), order=ffdl.SampleOrder.GLOBAL, batch_samples=64, epochs=3)
    session = ffdl.Session.open(participants=[ledger], ...)
    while not ledger.is_done:
        indices = ledger.sample_indices(ledger.take())
        compute_gradients(data[indices])
        session.end_step()

samples: of the data set, cut into partitions of `partition_samples`; None: one partition.
epochs: 0 for as many as can be counted.
window_partitions: with Shuffle.SAMPLES, the samples of that many consecutive partitions in the
order of the epoch are shuffled together. The number of partitions, or more: all samples.
batch_samples: with SampleOrder.GLOBAL, the samples of one step over all members, a multiple of
`micro_batch_samples`, which is not cut.
batch_size_controller: with SampleOrder.GLOBAL, a BatchSizeController that sets it for each step,
in whole micro-batches; it precedes the ledger among the session's participants.
partitions_wanted: with SampleOrder.ON_DEMAND, the number of partitions that this member wants to
hold.
on_stable: called with the CommittedStep of each step that is never taken back, in order, inside
a call of the session. That call raises its exceptions.
Raises InvalidArgument.)");
}

void bind_store_ledger(py::module_& module) {
  const LedgerOptions defaults;
  const StoreLedgerOptions own;
  module.def(
      "make_store_ledger",
      [](Store& store, std::string id, uint64_t samples, PartitionSamples partition_samples,
         uint64_t epochs, uint64_t seed, Shuffle shuffle, uint64_t window_partitions,
         SampleOrder order, int partitions_wanted, std::string job, uint64_t lineage,
         const py::bytes& from, double lease_s,
         const py::object& on_stable) -> std::unique_ptr<LedgerHandle> {
        const LedgerOptions options = ledger_options(
            samples, partition_samples, epochs, seed, shuffle, window_partitions, order);
        auto handle = std::make_unique<StoreLedgerHandle>();
        handle->on_stable = on_stable;
        StoreLedgerOptions worker;
        worker.job = std::move(job);
        worker.id = std::move(id);
        worker.lineage = lineage;
        const auto bytes = static_cast<std::string_view>(from);
        const auto all = std::as_bytes(std::span(bytes));
        worker.from.assign(all.begin(), all.end());
        worker.lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(lease_s));
        worker.member.partitions_wanted = partitions_wanted;
        worker.member.on_stable = telling(handle->raised, on_stable);
        handle->owned =
            take(without_lock([&] { return make_store_ledger(options, worker, store); }));
        handle->raised->rethrow();
        return handle;
      },
      py::arg("store"), py::kw_only(), py::arg("id"), py::arg("samples"),
      py::arg("partition_samples") = py::none(), py::arg("epochs") = defaults.epochs,
      py::arg("seed") = defaults.seed, py::arg("shuffle") = defaults.shuffle,
      py::arg("window_partitions") = defaults.window_partitions, py::arg("order") = defaults.order,
      py::arg("partitions_wanted") = own.member.partitions_wanted, py::arg("job") = own.job,
      py::arg("lineage") = own.lineage, py::arg("from_") = py::bytes(),
      py::arg("lease_s") = std::chrono::duration<double>(own.lease).count(),
      py::arg("on_stable") = py::none(), py::keep_alive<0, 1>(),
      R"(Makes a SampleLedger in a Store, where each worker commits its own samples by commit().

For trainers that use neither session nor parameter server. Joins the workers of `job` as `id`, in
a new life; an earlier life of that id is over. Samples that a dead worker had taken and not
committed may be used twice; `repeated` counts them.

    ledger = ffdl.make_store_ledger(store, id="w0", samples=len(data), partition_samples=4096)
    while not ledger.is_done:
        ranges = ledger.take(64)
        if not ranges:
            ledger.wait()
        ...
        ledger.commit()

samples, partition_samples, epochs, seed, shuffle, window_partitions, partitions_wanted: of
make_session_ledger(), the same at all workers but for the last.
order: SampleOrder.ON_DEMAND.
lineage: how often the job began again. The first worker that joins with a larger one resets the
ledger to `from_`, the result of save() with a checkpoint, or to its beginning.
lease_s: a worker that did not renew for that long is considered dead. Other workers then get its
samples. If it still runs, its commit() raises WorldChanged, and its next take() joins again as a
new life. It is Cancelled while another process has a life under its id.
on_stable: called with the CommittedStep of each commit that this worker makes or sees, inside a
call of the ledger. That call raises its exceptions.
Raises InvalidArgument (also for a ledger with other options under that name) and Cancelled (a
larger lineage has begun). Raises Corrupt (the record under that name is no ledger; `from_` is
invalid), and the errors of the store.)");
}

void bind_push_ledger(py::module_& module) {
  const LedgerOptions defaults;
  const LedgerMemberOptions own;
  module.def(
      "make_push_ledger",
      [](LearnerHandle& learner, uint64_t samples, PartitionSamples partition_samples,
         uint64_t epochs, uint64_t seed, Shuffle shuffle, uint64_t window_partitions,
         SampleOrder order, int partitions_wanted, const py::object& on_stable) {
        const LedgerOptions options = ledger_options(
            samples, partition_samples, epochs, seed, shuffle, window_partitions, order);
        return use_exclusively(learner, [&]() -> std::unique_ptr<LedgerHandle> {
          if (learner.ledger != nullptr) {
            raise_invalid_argument(
                "make a push ledger: the learner already has a ledger; drop that ledger first");
          }
          learner.raised->rethrow();
          learner.raised = std::make_shared<Raised>();
          LedgerMemberOptions member;
          member.partitions_wanted = partitions_wanted;
          member.on_stable = telling(learner.raised, on_stable);
          learner.ledger = take(
              without_lock([&] { return make_push_ledger(options, *learner.learner, member); }));
          learner.on_stable = on_stable;
          return std::make_unique<PushLedgerHandle>(learner);
        });
      },
      py::arg("learner"), py::kw_only(), py::arg("samples"),
      py::arg("partition_samples") = py::none(), py::arg("epochs") = defaults.epochs,
      py::arg("seed") = defaults.seed, py::arg("shuffle") = defaults.shuffle,
      py::arg("window_partitions") = defaults.window_partitions, py::arg("order") = defaults.order,
      py::arg("partitions_wanted") = own.partitions_wanted, py::arg("on_stable") = py::none(),
      py::keep_alive<0, 1>(),
      R"(Makes the SampleLedger of a Learner, whose pushes commit its samples.

Learners share only the server's memory for this. A push commits gradient and samples at once, and
a lock of the kernel shows which learner works on which partition. Each sample is in the weights
once per epoch, whichever process is killed. A learner has one ledger at a time.

    ledger = ffdl.make_push_ledger(learner, samples=len(data), partition_samples=64)
    while not ledger.is_done:
        ranges = ledger.take(32)
        if not ranges:
            ledger.wait()
            continue
        learner.push(gradient_of(data[ledger.sample_indices(ranges)]), ranges)
    learner.detach()

samples, partition_samples, epochs, seed, shuffle, window_partitions, partitions_wanted: of
make_session_ledger(), the same at all learners but for the last. The server has as many partitions
as the data set, or more.
order: SampleOrder.ON_DEMAND.
on_stable: called with the CommittedStep of each publication of this learner. It runs inside the
call of the learner or the ledger that publishes, or on the thread of a start_push(). It is also
called with publications that a killed learner did not report. It must call neither the learner nor
the ledger. Its exceptions are raised by that call, or by the next one after start_push(). The
samples are committed even so. After an exception it is not called again.
Raises InvalidArgument, Cancelled.)");
}

using LedgerClass = py::class_<LedgerHandle, ParticipantHandle>;

void bind_ledger_use(LedgerClass& ledger) {
  ledger
      .def(
          "take",
          [](LedgerHandle& handle, std::optional<uint64_t> count) {
            return take(run(handle, [&](SampleLedger& one) {
              return one.take(count.value_or(SampleLedger::kAll));
            }));
          },
          py::arg("count") = py::none(),
          R"(Returns up to `count` samples for the next gradient: a list of SampleRange.

count: None: all that are due now, which is meant for SampleOrder.GLOBAL.

Each call begins at the same sample until they are committed. In a session call it once per step,
and again for a step that is to be repeated. With a parameter server push all of them, in any number
of pushes, in this order. The list is empty if others hold the rest of this epoch, the server is
late, or all is done. Then call wait(), or take part in the session's step without samples. Raises
InvalidArgument (a member has other options; a start_push() is under way), Internal (a member has
another state), and the errors of the store. Raises Cancelled once this life is over.)")
      .def(
          "wait", &LedgerHandle::wait, py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits while take() would return nothing because others hold the rest of an epoch. In a\n"
          "session it returns at once. With a learner it publishes the accumulated gradient, and\n"
          "exempts the learner from bounds and rounds meanwhile. Returns at once when all is\n"
          "done. Raises Timeout, Cancelled.")
      .def(
          "forecast",
          [](LedgerHandle& handle, size_t steps) {
            return run(handle, [&](SampleLedger& one) { return one.forecast(steps); });
          },
          py::arg("steps"),
          "With SampleOrder.GLOBAL, the samples of this member in each of the next `steps` steps,\n"
          "1024 at most: a list of lists of SampleRange. It is right if all take their whole\n"
          "shares, no member joins or leaves and the batch size stays. Empty with ON_DEMAND,\n"
          "where leases suffice.")
      .def(
          "want",
          [](LedgerHandle& handle, int partitions) {
            run(handle, [&](SampleLedger& one) {
              one.want(partitions);
              return true;
            });
          },
          py::arg("partitions"),
          "Requests that many partitions from the next commit on; 0 or less: no more at all.")
      .def(
          "sample_indices",
          [](const LedgerHandle& handle, const std::vector<SampleRange>& ranges) {
            const auto indices = take(handle.ledger().sample_indices(ranges));
            py::array_t<int64_t> array(static_cast<py::ssize_t>(indices.size()));
            std::copy(indices.begin(), indices.end(), array.mutable_data());
            return array;
          },
          py::arg("ranges"),
          "Returns the places of the ranges' samples in the data set, in the order of training:\n"
          "int64[n]. Raises InvalidArgument (a range that no ledger with these options returns).");
}

void bind_ledger_state(LedgerClass& ledger) {
  ledger
      .def(
          "commit",
          [](LedgerHandle& handle) {
            check(run(handle, [](SampleLedger& one) { return one.commit(); }));
          },
          "In a store: commits the samples taken. Raises InvalidArgument (another ledger, whose\n"
          "steps or pushes commit), and the errors of the store. Raises WorldChanged if this\n"
          "worker did not renew its lease, and other workers got the samples: drop the batch,\n"
          "and continue with take(). Raises Cancelled once this worker is out. After another\n"
          "error call it again: the samples are committed once.")
      .def(
          "leave",
          [](LedgerHandle& handle) {
            check(run(handle, [](SampleLedger& one) { return one.leave(); }));
          },
          "In a store: releases the samples that it holds and did not commit, as unused. Raises\n"
          "the errors of commit().")
      .def(
          "save",
          [](LedgerHandle& handle) {
            return bytes_of(take(run(handle, [](SampleLedger& one) { return one.save(); })));
          },
          "Returns the position of the job, for a checkpoint: the commits of all workers, as\n"
          "bytes. Raises InvalidArgument (of a learner: the server's cut has it), and the errors\n"
          "of the store.")
      .def(
          "restore",
          [](LedgerHandle& handle, const py::bytes& state) {
            const auto bytes = static_cast<std::string_view>(state);
            const auto all = std::as_bytes(std::span(bytes));
            StepParticipant& participant = handle.participant();
            check(run(handle, [&](SampleLedger&) { return participant.restore(all); }));
          },
          py::arg("bytes"),
          "In a session: restores the result of save(). Raises Corrupt and InvalidArgument (with\n"
          "other options, which it names; another ledger); the state is then unchanged.");
}

template <class Get>
void bind_read(LedgerClass& ledger, const char* name, Get get) {
  ledger.def_property_readonly(name,
                               [get](const LedgerHandle& handle) { return read(handle, get); });
}

}  // namespace

void bind_sample_ledger(py::module_& module) {
  bind_ledger_values(module);
  LedgerClass ledger(module, "SampleLedger",
                     R"(Assigns the samples from which one worker computes its gradients.

Each sample is committed once per epoch, whichever worker joins, leaves or dies. Three functions
make one: make_session_ledger() (the steps of a Session commit), make_store_ledger() (commit() does,
in a Store), make_push_ledger() (the pushes of a Learner do).

taken: the samples of take() that are not committed. In a session it is this member's weight in the
mean, and 0 if its samples now belong to another member.
leases: the samples that this worker holds, as a list of SampleRange, in the order in which it will
take them.
epoch: counts from 0.
committed: samples of this epoch.
is_done: all epochs are over.
samples: of the data set.
order, micro_batch_samples, batch_size_controller: as given.
shares: with SampleOrder.GLOBAL, the number of micro-batches of each rank in the present step; empty
otherwise.
batch_samples: with SampleOrder.GLOBAL, of the present step, over all members.
repeated: in a store, the samples of the job that may have been used twice. A worker died with them
taken and not committed.

One thread at a time: that of the session or the learner. The header is
ffdl/data/sample_ledger.h.)");
  bind_ledger_use(ledger);
  bind_ledger_state(ledger);
  ledger.def_readonly("order", &LedgerHandle::order)
      .def_readonly("micro_batch_samples", &LedgerHandle::micro_batch_samples)
      .def_readonly("batch_size_controller", &LedgerHandle::batch_size_controller)
      .def_property_readonly("samples", [](const LedgerHandle& h) { return h.ledger().samples(); })
      // With a learner it reads each partition.
      .def_property_readonly("committed", [](LedgerHandle& handle) {
        return run(handle, [](SampleLedger& one) { return one.committed(); });
      });
  bind_read(ledger, "batch_samples", [](const SampleLedger& l) { return l.batch_samples(); });
  bind_read(ledger, "taken", [](const SampleLedger& l) { return l.taken(); });
  bind_read(ledger, "shares", [](const SampleLedger& l) { return l.shares(); });
  bind_read(ledger, "leases", [](const SampleLedger& l) { return l.leases(); });
  bind_read(ledger, "epoch", [](const SampleLedger& l) { return l.epoch(); });
  bind_read(ledger, "is_done", [](const SampleLedger& l) { return l.is_done(); });
  bind_read(ledger, "repeated", [](const SampleLedger& l) { return l.repeated(); });
  bind_session_ledger(module);
  bind_store_ledger(module);
  bind_push_ledger(module);
}

}  // namespace ffdl::python
