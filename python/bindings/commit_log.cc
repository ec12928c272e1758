#include "ffdl/commit_log.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "committed_step.h"
#include "record.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_commit_log(py::module_& module) {
  py::class_<CommitLog>(module, "CommitLog",
                        R"(What the steps of a job committed, in a file of one member, for an audit.

    log = ffdl.CommitLog.open("commits-w0", samples=len(data), partition_samples=4096)
    ledger = ffdl.StoreLedger.join(store, id="w0", ..., on_stable=log.write)

Each member writes a log of its own. `ffdl data audit commits-*` proves that each sample was used
once per epoch. One thread at a time. The header is ffdl/commit_log.h.)")
      .def_static(
          "open",
          [](const std::string& path, uint64_t samples, std::optional<uint64_t> partition_samples,
             uint64_t epochs) {
            const PartitionLedgerOptions ledger = {
                .samples = samples,
                .partition_samples = partition_samples.value_or(samples),
                .epochs = epochs};
            return take(without_lock([&] { return CommitLog::open(path, ledger); }));
          },
          py::arg("path"), py::kw_only(), py::arg("samples"),
          py::arg("partition_samples") = py::none(),
          py::arg("epochs") = PartitionLedgerOptions{}.epochs,
          "Goes on with a log that is there. The options are those of the ledger. Raises\n"
          "Unavailable.")
      .def(
          "write",
          [](CommitLog& log, const CommittedParts& step) {
            log.write(step_of(step));
            check(log.status());
          },
          py::arg("step"),
          "One line, which outlives a killed process.\n"
          "Raises Unavailable, from the first write that failed on.");
  Record<CommitAudit>(
      module, "CommitAudit",
      "What logs prove. steps: that committed. samples: that they committed; of these\n"
      "missing and repeated ones. epochs: before the one that is under way, of\n"
      "which under_way samples are there. cut_lines: that a killed process did\n"
      "not write to their end. problems; first_problems: a sentence each.")
      .field("steps", &CommitAudit::steps)
      .field("samples", &CommitAudit::samples)
      .field("epochs", &CommitAudit::epochs)
      .field("under_way", &CommitAudit::under_way)
      .field("missing", &CommitAudit::missing)
      .field("repeated", &CommitAudit::repeated)
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
      "Whether each sample was committed once in each epoch, by the logs of all members that ever\n"
      "lived. complete: all epochs must be there. then: the logs of further jobs, in their order,\n"
      "each of which went on from a checkpoint of the one before "
      "(CheckpointOptions(resume=True)).\n"
      "Raises NotFound, Unavailable, Corrupt,\n"
      "InvalidArgument; what is wrong with the samples is in the CommitAudit.");
}

}  // namespace ffdl::python
