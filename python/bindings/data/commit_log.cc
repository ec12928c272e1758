#include "ffdl/data/commit_log.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/data/committed_step.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_commit_log(py::module_& module) {
  py::class_<CommitLog>(module, "CommitLog",
                        R"(The commits of a job's steps in a file of one member, for an audit.

    log = ffdl.CommitLog.open("commits-w0", samples=len(data), partition_samples=4096)
    ledger = ffdl.make_store_ledger(store, id="w0", ..., on_stable=log.write)

Each member writes a log of its own. `ffdl data audit commits-*` proves that each sample was used
once per epoch. One thread at a time. The header is ffdl/data/commit_log.h.)")
      .def_static(
          "open",
          [](const std::string& path, uint64_t samples, std::optional<uint64_t> partition_samples,
             uint64_t epochs) {
            const LedgerOptions ledger = {.samples = samples,
                                          .partition_samples = partition_samples.value_or(samples),
                                          .epochs = epochs};
            return take(without_lock([&] { return CommitLog::open(path, ledger); }));
          },
          py::arg("path"), py::kw_only(), py::arg("samples"),
          py::arg("partition_samples") = py::none(), py::arg("epochs") = LedgerOptions{}.epochs,
          "Opens a log, and continues one that exists. The options are those of the ledger.\n"
          "Raises InvalidArgument, Unavailable.")
      .def(
          "write",
          [](CommitLog& log, const CommittedParts& step) {
            log.write(step_of(step));
            check(log.status());
          },
          py::arg("step"),
          "Writes one line, which outlives a killed process. Raises Unavailable, from the first\n"
          "write that failed on.");
  Record<CommitAudit>(
      module, "CommitAudit",
      R"(The results of an audit.

steps: with committed samples.
samples: committed by these steps.
epochs: before the present one.
under_way: committed samples of the present epoch; 0 if none was begun.
missing, repeated: samples.
undone: samples that a lineage committed after the step from which a later one continued.
cut_lines: incomplete lines of killed processes.
problems: their number.
first_problems: up to 100 of the problems, one sentence each.)")
      .field("steps", &CommitAudit::steps)
      .field("samples", &CommitAudit::samples)
      .field("epochs", &CommitAudit::epochs)
      .field("under_way", &CommitAudit::under_way)
      .field("missing", &CommitAudit::missing)
      .field("repeated", &CommitAudit::repeated)
      .field("undone", &CommitAudit::undone)
      .field("cut_lines", &CommitAudit::cut_lines)
      .field("problems", &CommitAudit::problems)
      .field("first_problems", &CommitAudit::first_problems);
  module.def(
      "audit_commit_logs",
      [](const std::vector<std::string>& paths, bool complete,
         const std::vector<std::vector<std::string>>& then) {
        return take(without_lock(
            [&] { return audit_commit_logs(paths, {.complete = complete, .then = then}); }));
      },
      py::arg("paths"), py::kw_only(), py::arg("complete") = CommitAuditOptions{}.complete,
      py::arg("then") = std::vector<std::vector<std::string>>(),
      "Checks by the logs of all members that ever lived that each sample was committed once\n"
      "in each epoch. complete: all epochs must be over. then: the logs of further jobs, in\n"
      "their order, each of which continued from a checkpoint of the one before\n"
      "(CheckpointOptions(resume=True)). Raises NotFound, Unavailable, Corrupt,\n"
      "InvalidArgument; errors of the samples are in the CommitAudit.");
}

}  // namespace ffdl::python
