#include "ffdl/partition_ledger.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agreed_batch_handle.h"
#include "bindings.h"
#include "committed_step.h"
#include "ledger_handle.h"
#include "record.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_ledger_values(py::module_& module) {
  py::native_enum<Shuffle>(module, "Shuffle", "enum.Enum", "What changes from epoch to epoch.")
      .value("NONE", Shuffle::kNone)
      .value("PARTITIONS", Shuffle::kPartitions)
      .value("SAMPLES", Shuffle::kSamples)
      .finalize();
  py::native_enum<SampleOrder>(
      module, "SampleOrder", "enum.Enum",
      "ON_DEMAND: members get partitions as they use them up. GLOBAL: each step uses the next\n"
      "`batch_samples` of one order, cut evenly, whatever the number of members.")
      .value("ON_DEMAND", SampleOrder::kOnDemand)
      .value("GLOBAL", SampleOrder::kGlobal)
      .finalize();
  Record<CommittedParts>(module, "CommittedStep",
                         "What a step committed. parts: of each member that had samples, in the\n"
                         "order of ranks, the Member and its SampleRange. lineage: how often the\n"
                         "job has begun anew.")
      .field("step", &CommittedParts::step)
      .field("parts", &CommittedParts::parts)
      .field("lineage", &CommittedParts::lineage);
}

std::unique_ptr<LedgerHandle> create_ledger(PartitionLedgerOptions options,
                                            std::optional<uint64_t> partition_samples,
                                            const py::object& agreed_batch,
                                            const py::object& on_stable) {
  auto handle = std::make_unique<LedgerHandle>();
  handle->agreed_batch = agreed_batch;
  if (!agreed_batch.is_none()) {
    const AgreedBatch& batch = *agreed_batch.cast<AgreedBatchHandle&>().batch;
    options.agreed_batch = [&batch] { return batch.samples(); };
  }
  options.partition_samples = partition_samples.value_or(options.samples);
  handle->on_stable = on_stable;
  options.on_stable = telling(handle->raised, on_stable);
  handle->order = options.order;
  handle->micro_batch_samples = options.micro_batch_samples;
  handle->ledger = take(PartitionLedger::create(options));
  return handle;
}

void bind_ledger_create(py::class_<LedgerHandle, ParticipantHandle>& ledger) {
  const PartitionLedgerOptions defaults;
  ledger.def_static(
      "create",
      [](uint64_t samples, std::optional<uint64_t> partition_samples, uint64_t epochs,
         uint64_t seed, Shuffle shuffle, uint64_t window_partitions, SampleOrder order,
         uint64_t batch_samples, uint64_t micro_batch_samples, const py::object& agreed_batch,
         int partitions_wanted, const py::object& on_stable) {
        return create_ledger({.samples = samples,
                              .partition_samples = 0,
                              .epochs = epochs,
                              .seed = seed,
                              .shuffle = shuffle,
                              .window_partitions = window_partitions,
                              .order = order,
                              .batch_samples = batch_samples,
                              .micro_batch_samples = micro_batch_samples,
                              .agreed_batch = {},
                              .partitions_wanted = partitions_wanted,
                              .on_stable = {}},
                             partition_samples, agreed_batch, on_stable);
      },
      py::kw_only(), py::arg("samples"), py::arg("partition_samples") = py::none(),
      py::arg("epochs") = defaults.epochs, py::arg("seed") = defaults.seed,
      py::arg("shuffle") = defaults.shuffle,
      py::arg("window_partitions") = defaults.window_partitions, py::arg("order") = defaults.order,
      py::arg("batch_samples") = defaults.batch_samples,
      py::arg("micro_batch_samples") = defaults.micro_batch_samples,
      py::arg("agreed_batch") = py::none(),
      py::arg("partitions_wanted") = defaults.partitions_wanted, py::arg("on_stable") = py::none(),
      R"(A ledger at its beginning, with the same options at all members but for the last three.

samples: of the data set, cut into partitions of `partition_samples`; None: one partition.
epochs: 0 for as many as can be counted.
window_partitions: with Shuffle.SAMPLES, the samples of so many partitions, which follow each other
in the order of the epoch, are shuffled together. As many as there are, or more: all samples.
batch_samples: with SampleOrder.GLOBAL, the samples of one step over all members, a multiple of
`micro_batch_samples`, which is not cut.
agreed_batch: with SampleOrder.GLOBAL, an AgreedBatch that says it from step to step, in whole
micro-batches; it stands before the ledger among the session's participants.
partitions_wanted: with SampleOrder.ON_DEMAND, how many partitions this member wants to hold.
on_stable: called with the CommittedStep of each step that is never taken back, in order, inside a
call of the session. What it raises comes out of that call.
Raises InvalidArgument.)");
}

void bind_ledger_use(py::class_<LedgerHandle, ParticipantHandle>& ledger) {
  ledger
      .def(
          "take",
          [](const LedgerHandle& handle, std::optional<uint64_t> count) {
            return take(handle.use().take(count.value_or(PartitionLedger::kAll)));
          },
          py::arg("count") = py::none(),
          R"(What this member computes its gradient of the present step from: up to `count` samples.

A list of SampleRange. None: all that is due now, which is meant for SampleOrder.GLOBAL. A step has
one answer: asked again it begins at the same sample, so call it once per step, and again for a
step that is to be repeated. Empty: take part in the step with nothing.
Raises InvalidArgument (a member has other options), Internal (one has another state).)")
      .def(
          "forecast",
          [](const LedgerHandle& handle, size_t steps) { return handle.use().forecast(steps); },
          py::arg("steps"),
          "With SampleOrder.GLOBAL, what this member will hold in each of the next `steps` steps,\n"
          "1024 at most: a list of lists of SampleRange. If all take their whole shares, nobody\n"
          "comes or goes and the batch stays. Empty with ON_DEMAND, as leases say enough.")
      .def(
          "want", [](const LedgerHandle& handle, int partitions) { handle.use().want(partitions); },
          py::arg("partitions"),
          "Asks for so many partitions from the next step on; 0: for no more at all.")
      .def(
          "sample_indices",
          [](const LedgerHandle& handle, const std::vector<SampleRange>& ranges) {
            return indices_of(handle.use(), ranges);
          },
          py::arg("ranges"),
          "Where the samples of ranges lie in the data set, in the order of training: int64[n].\n"
          "Raises InvalidArgument (a range that no ledger with these options gives).")
      .def(
          "save", [](const LedgerHandle& handle) { return bytes_of(handle.use().save()); },
          "The state as bytes; it is part of what the session's members hold in common.")
      .def(
          "restore",
          [](const LedgerHandle& handle, const py::bytes& state) {
            const auto bytes = static_cast<std::string_view>(state);
            check(handle.use().restore(std::as_bytes(std::span(bytes))));
          },
          py::arg("bytes"), "Raises Corrupt; the state is then as it was.");
}

}  // namespace

void bind_partition_ledger(py::module_& module) {
  bind_ledger_values(module);
  py::class_<LedgerHandle, ParticipantHandle> ledger(
      module, "PartitionLedger",
      R"(Which samples each member computes its gradients from.

Each sample is committed once per epoch, whoever joins, leaves or dies: a participant of a Session.

    ledger = ffdl.PartitionLedger.create(
        samples=len(data), order=ffdl.SampleOrder.GLOBAL, batch_samples=64, epochs=3)
    while not ledger.is_done:
        indices = ledger.sample_indices(ledger.take())
        compute_gradients(data[indices])
        session.end_step(ledger.taken)

taken: the samples that this step commits for this member, its weight in the mean; 0 when what it
took is another's now. shares: with SampleOrder.GLOBAL, how many micro-batches each rank has of the
present step; empty otherwise. leases: what this member holds, as a list of SampleRange, in the
order in which it will take it. batch_samples: with SampleOrder.GLOBAL, of the present step, over
all members. epoch: counts from 0. committed: samples of this epoch. order,
micro_batch_samples, agreed_batch: as it was created.
One thread at a time, that of the session; never waits. The header is ffdl/partition_ledger.h.)");
  bind_ledger_create(ledger);
  bind_ledger_use(ledger);
  ledger.def_readonly("order", &LedgerHandle::order)
      .def_readonly("micro_batch_samples", &LedgerHandle::micro_batch_samples)
      .def_readonly("agreed_batch", &LedgerHandle::agreed_batch)
      .def_property_readonly("batch_samples",
                             [](const LedgerHandle& h) { return h.use().batch_samples(); })
      .def_property_readonly("taken", [](const LedgerHandle& h) { return h.use().taken(); })
      .def_property_readonly("shares", [](const LedgerHandle& h) { return h.use().shares(); })
      .def_property_readonly("leases", [](const LedgerHandle& h) { return h.use().leases(); })
      .def_property_readonly("epoch", [](const LedgerHandle& h) { return h.use().epoch(); })
      .def_property_readonly("committed", [](const LedgerHandle& h) { return h.use().committed(); })
      .def_property_readonly("is_done", [](const LedgerHandle& h) { return h.use().is_done(); });
}

}  // namespace ffdl::python
