#include "ffdl/store_ledger.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "committed_step.h"
#include "ledger_handle.h"
#include "record.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// What a Python StoreLedger holds. Its end waits for its task.
struct StoreLedgerHandle {
  ~StoreLedgerHandle() {
    py::gil_scoped_release others_may_run;
    ledger.reset();
  }

  std::shared_ptr<Raised> raised = std::make_shared<Raised>();  // with the ledger's callback
  py::object on_stable;
  std::unique_ptr<StoreLedger> ledger;
  bool busy = false;
};

// Calls `call(ledger)` for the one thread that may use it. What on_stable raises comes out here.
template <class Call>
auto use_ledger(StoreLedgerHandle& handle, Call&& call) {
  const Exclusive one_thread(handle.busy);
  auto outcome = without_lock([&] { return call(*handle.ledger); });
  handle.raised->rethrow();
  return outcome;
}

std::unique_ptr<StoreLedgerHandle> join(Store& store, StoreLedgerOptions options,
                                        std::optional<uint64_t> partition_samples, double lease_s,
                                        const py::bytes& from, const py::object& on_stable) {
  auto handle = std::make_unique<StoreLedgerHandle>();
  options.data.partition_samples = partition_samples.value_or(options.data.samples);
  handle->on_stable = on_stable;
  options.data.on_stable = telling(handle->raised, on_stable);
  const auto bytes = static_cast<std::string_view>(from);
  const auto all = std::as_bytes(std::span(bytes));
  options.from.assign(all.begin(), all.end());
  options.lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(lease_s));
  handle->ledger =
      take(without_lock([&] { return StoreLedger::join(options, store, system_runtime()); }));
  handle->raised->rethrow();
  return handle;
}

void bind_join(py::class_<StoreLedgerHandle>& ledger) {
  const StoreLedgerOptions defaults;
  ledger.def_static(
      "join",
      [](Store& store, std::string id, uint64_t samples, std::optional<uint64_t> partition_samples,
         uint64_t epochs, uint64_t seed, Shuffle shuffle, uint64_t window_partitions,
         SampleOrder order, int partitions_wanted, std::string job, uint64_t lineage,
         const py::bytes& from, double lease_s, const py::object& on_stable) {
        StoreLedgerOptions options;
        options.data.samples = samples;
        options.data.epochs = epochs;
        options.data.seed = seed;
        options.data.shuffle = shuffle;
        options.data.window_partitions = window_partitions;
        options.data.order = order;
        options.data.partitions_wanted = partitions_wanted;
        options.job = std::move(job);
        options.id = std::move(id);
        options.lineage = lineage;
        return join(store, std::move(options), partition_samples, lease_s, from, on_stable);
      },
      py::arg("store"), py::kw_only(), py::arg("id"), py::arg("samples"),
      py::arg("partition_samples") = py::none(), py::arg("epochs") = defaults.data.epochs,
      py::arg("seed") = defaults.data.seed, py::arg("shuffle") = defaults.data.shuffle,
      py::arg("window_partitions") = defaults.data.window_partitions,
      py::arg("order") = defaults.data.order,
      py::arg("partitions_wanted") = defaults.data.partitions_wanted, py::arg("job") = defaults.job,
      py::arg("lineage") = defaults.lineage, py::arg("from_") = py::bytes(),
      py::arg("lease_s") = std::chrono::duration<double>(defaults.lease).count(),
      py::arg("on_stable") = py::none(), py::keep_alive<0, 1>(),
      R"(Joins the workers of `job` as `id`, in a new life; one under the same id is over.

samples, partition_samples, epochs, seed, shuffle, window_partitions, partitions_wanted: of
PartitionLedger.create(), the same at all workers but for the last. order: SampleOrder.ON_DEMAND.
lineage: how often the job began anew. Who joins first with a larger one puts the ledger back to
`from_`, what save() gave with a checkpoint, or to its beginning.
lease_s: who did not renew that long is taken for dead.
on_stable: called with the CommittedStep of each commit that this worker makes or sees, inside a
call of the ledger. What it raises comes out of that call.
Raises InvalidArgument, Cancelled (a larger lineage has begun), Corrupt (another ledger, or none, is
under that name), and what the store does.)");
}

void bind_store_ledger_use(py::class_<StoreLedgerHandle>& ledger) {
  ledger
      .def(
          "take",
          [](StoreLedgerHandle& handle, std::optional<uint64_t> count) {
            return take(use_ledger(handle, [&](StoreLedger& one) {
              return one.take(count.value_or(StoreLedger::kAll));
            }));
          },
          py::arg("count") = py::none(),
          "What the next gradient is computed from: a list of SampleRange, of up to `count`\n"
          "samples; the same until advance(). Empty: others hold the rest of this epoch, or all\n"
          "is done. Raises Cancelled once this life is over, and what the store does.")
      .def(
          "advance",
          [](StoreLedgerHandle& handle) {
            check(use_ledger(handle, [](StoreLedger& one) { return one.advance(); }));
          },
          "Commits what was taken. After an error call it again until it succeeds or raises\n"
          "Cancelled: it happens once.")
      .def(
          "wait",
          [](StoreLedgerHandle& handle, double timeout_s) {
            const Exclusive one_thread(handle.busy);
            check(wait(timeout_s, [&](Time deadline) { return handle.ledger->wait(deadline); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits while others hold the rest of an epoch. Raises Timeout.")
      .def(
          "leave",
          [](StoreLedgerHandle& handle) {
            check(use_ledger(handle, [](StoreLedger& one) { return one.leave(); }));
          },
          "Gives back what it holds and did not commit, which it has not used.")
      .def(
          "want",
          [](StoreLedgerHandle& handle, int partitions) { handle.ledger->want(partitions); },
          py::arg("partitions"), "Asks for so many partitions from the next commit on.")
      .def(
          "sample_indices",
          [](const StoreLedgerHandle& handle, const std::vector<SampleRange>& ranges) {
            return indices_of(*handle.ledger, ranges);
          },
          py::arg("ranges"),
          "Where the samples of ranges lie in the data set, in the order of training: int64[n].\n"
          "Raises InvalidArgument (a range that no ledger with these options gives).")
      .def(
          "save",
          [](StoreLedgerHandle& handle) {
            return bytes_of(take(use_ledger(handle, [](StoreLedger& one) { return one.save(); })));
          },
          "Where the job stands, for a checkpoint: what all workers have committed.");
}

}  // namespace

void bind_store_ledger(py::module_& module) {
  Record<StoreLedgerStats>(module, "StoreLedgerStats",
                           "commits, attempts, conflicts, looks: of this worker, see the header.\n"
                           "repeated: samples of the job that may have been used twice, after a\n"
                           "worker died with them taken and not committed.")
      .field("commits", &StoreLedgerStats::commits)
      .field("attempts", &StoreLedgerStats::attempts)
      .field("conflicts", &StoreLedgerStats::conflicts)
      .field("looks", &StoreLedgerStats::looks)
      .field("repeated", &StoreLedgerStats::repeated);
  py::class_<StoreLedgerHandle> ledger(
      module, "StoreLedger",
      R"(The ledger of a trainer that uses neither session nor parameter server.

Kept in a Store, where each worker commits its own samples; each once per epoch, whoever joins,
leaves or dies. What a dead worker had taken and not committed may be used twice, and is counted.

    ledger = ffdl.StoreLedger.join(store, id="w0", samples=len(data), partition_samples=4096)
    while not ledger.is_done:
        ranges = ledger.take(64)
        if not ranges:
            ledger.wait()
        ...
        ledger.advance()

taken, leases, epoch, committed, is_done: as of PartitionLedger, as this worker last saw them. self:
its Member. stats: StoreLedgerStats. One thread at a time. The header is ffdl/store_ledger.h.)");
  bind_join(ledger);
  bind_store_ledger_use(ledger);
  ledger
      .def_property_readonly("taken", [](const StoreLedgerHandle& h) { return h.ledger->taken(); })
      .def_property_readonly("leases",
                             [](const StoreLedgerHandle& h) { return h.ledger->leases(); })
      .def_property_readonly("epoch", [](const StoreLedgerHandle& h) { return h.ledger->epoch(); })
      .def_property_readonly("committed",
                             [](const StoreLedgerHandle& h) { return h.ledger->committed(); })
      .def_property_readonly("is_done",
                             [](const StoreLedgerHandle& h) { return h.ledger->is_done(); })
      .def_property_readonly("self", [](const StoreLedgerHandle& h) { return h.ledger->self(); })
      .def_property_readonly("stats", [](const StoreLedgerHandle& h) { return h.ledger->stats(); });
}

}  // namespace ffdl::python
