#include "ffdl/slot_ledger.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.h"
#include "committed_step.h"
#include "learner_handle.h"
#include "ledger_handle.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// What a Python SlotLedger holds: the learner has its ledger, and outlives this.
struct SlotLedgerHandle {
  explicit SlotLedgerHandle(LearnerHandle& its_learner) : learner(its_learner) {}
  ~SlotLedgerHandle() {
    // The learner's next call drops it where this may be inside a call, or on the thread of a push
    // that it would wait for.
    learner.ledger_is_left = true;
    if (learner.busy || learner.pushed) return;
    const Exclusive one_thread(learner.busy);
    drop_ledger(learner);
  }
  SlotLedgerHandle(const SlotLedgerHandle&) = delete;
  SlotLedgerHandle& operator=(const SlotLedgerHandle&) = delete;

  SlotLedger& ledger() const { return *learner.ledger; }

  LearnerHandle& learner;
};

std::unique_ptr<SlotLedgerHandle> create(LearnerHandle& learner, PartitionLedgerOptions options,
                                         std::optional<uint64_t> partition_samples,
                                         const py::object& on_stable) {
  return use_exclusively(learner, [&] {
    if (learner.ledger != nullptr) {
      raise_invalid_argument("make a slot ledger: the learner has one; drop that one before");
    }
    learner.raised->rethrow();
    learner.raised = std::make_shared<Raised>();
    options.partition_samples = partition_samples.value_or(options.samples);
    options.on_stable = telling(learner.raised, on_stable);
    learner.ledger =
        take(without_lock([&] { return SlotLedger::create(options, *learner.learner); }));
    learner.on_stable = on_stable;
    return std::make_unique<SlotLedgerHandle>(learner);
  });
}

void bind_create(py::class_<SlotLedgerHandle>& ledger) {
  const PartitionLedgerOptions defaults;
  ledger.def_static(
      "create",
      [](LearnerHandle& learner, uint64_t samples, std::optional<uint64_t> partition_samples,
         uint64_t epochs, uint64_t seed, Shuffle shuffle, uint64_t window_partitions,
         SampleOrder order, int partitions_wanted, const py::object& on_stable) {
        PartitionLedgerOptions options;
        options.samples = samples;
        options.epochs = epochs;
        options.seed = seed;
        options.shuffle = shuffle;
        options.window_partitions = window_partitions;
        options.order = order;
        options.partitions_wanted = partitions_wanted;
        return create(learner, std::move(options), partition_samples, on_stable);
      },
      py::arg("learner"), py::kw_only(), py::arg("samples"),
      py::arg("partition_samples") = py::none(), py::arg("epochs") = defaults.epochs,
      py::arg("seed") = defaults.seed, py::arg("shuffle") = defaults.shuffle,
      py::arg("window_partitions") = defaults.window_partitions, py::arg("order") = defaults.order,
      py::arg("partitions_wanted") = defaults.partitions_wanted, py::arg("on_stable") = py::none(),
      py::keep_alive<0, 1>(),
      R"(The samples of `learner`, which has one ledger at a time.

samples, partition_samples, epochs, seed, shuffle, window_partitions, partitions_wanted: of
PartitionLedger.create(), the same at all learners but for the last. order: SampleOrder.ON_DEMAND.
The server has as many partitions as the data set, or more.
on_stable: called with the CommittedStep of each publication of this learner, inside the call of
the learner or the ledger that makes it, or on the thread of a start_push(); and with those that a
killed learner did not tell. It may call neither. What it raises comes out of that call, or of the
next one after start_push(), though the samples are committed; it is not called again.
Raises InvalidArgument, Cancelled.)");
}

void bind_use(py::class_<SlotLedgerHandle>& ledger) {
  ledger
      .def(
          "take",
          [](const SlotLedgerHandle& handle, std::optional<uint64_t> count) {
            return take(use(handle.learner, [&](Learner&) {
              return handle.ledger().take(count.value_or(SlotLedger::kAll));
            }));
          },
          py::arg("count") = py::none(),
          "What the next push names: a list of SampleRange, of up to `count` samples, for\n"
          "Learner.push_ranges(); all of it, in any number of pushes, in this order. Empty:\n"
          "others hold the rest of this epoch, the server is late, or all is done: wait().\n"
          "Raises InvalidArgument (a start_push() is under way), Cancelled.")
      .def(
          "wait",
          [](const SlotLedgerHandle& handle, double timeout_s) {
            check(use_until(handle.learner, timeout_s, [&](Learner&, Time deadline) {
              return handle.ledger().wait(deadline);
            }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits while take() would give nothing; publishes what the learner has accumulated, and\n"
          "takes it out of bounds and rounds meanwhile. At once when all is done.\n"
          "Raises Timeout, Cancelled.")
      .def(
          "sample_indices",
          [](const SlotLedgerHandle& handle, const std::vector<SampleRange>& ranges) {
            return indices_of(handle.ledger(), ranges);
          },
          py::arg("ranges"),
          "Where the samples of ranges lie in the data set, in the order of training: int64[n].\n"
          "Raises InvalidArgument (a range that no ledger with these options gives).");
}

// What needs no look at all partitions: the interpreter lock is kept.
template <class Get>
void bind_seen(py::class_<SlotLedgerHandle>& ledger, const char* name, Get get) {
  ledger.def_property_readonly(name, [get](const SlotLedgerHandle& handle) {
    return use_exclusively(handle.learner, [&] { return get(handle.ledger()); });
  });
}

}  // namespace

void bind_slot_ledger(py::module_& module) {
  py::class_<SlotLedgerHandle> ledger(
      module, "SlotLedger",
      R"(Which samples a learner of a parameter server computes its gradients from.

Learners share nothing for it but the server's memory: push commits gradient and samples at once,
and a lock of the kernel says who works on which partition. Each sample is in the weights once per
epoch, whoever is killed.

    ledger = ffdl.SlotLedger.create(learner, samples=len(data), partition_samples=64)
    while not ledger.is_done:
        ranges = ledger.take(32)
        if not ranges:
            ledger.wait()
            continue
        learner.push_ranges(gradient_of(data[ledger.sample_indices(ranges)]), ranges)
    learner.detach()

taken: the samples of take() that are not pushed yet. leases, epoch, committed, is_done: as of
PartitionLedger, as this learner last saw them. What it holds goes back with it. For the thread of
its learner. The header is ffdl/slot_ledger.h.)");
  bind_create(ledger);
  bind_use(ledger);
  bind_seen(ledger, "taken", [](const SlotLedger& l) { return l.taken(); });
  bind_seen(ledger, "leases", [](const SlotLedger& l) { return l.leases(); });
  bind_seen(ledger, "epoch", [](const SlotLedger& l) { return l.epoch(); });
  bind_seen(ledger, "is_done", [](const SlotLedger& l) { return l.is_done(); });
  ledger.def_property_readonly("committed", [](const SlotLedgerHandle& handle) {
    return use(handle.learner, [&](Learner&) { return handle.ledger().committed(); });
  });
}

}  // namespace ffdl::python
