#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl {

// The commits of a job's steps, as lines of JSON in one file per member. They prove afterwards that
// each sample was used once per epoch. Each member writes its own log; the logs of all members that
// ever lived contain every step together.
//   options.on_stable = [&](const CommittedStep& step) { log->write(step); };
// Threads: one at a time.
class FFDL_API CommitLog {
 public:
  // Opens a log, and appends if it exists. Errors: kInvalidArgument (invalid options, or a path
  // that is no regular file), kUnavailable (the file cannot be written).
  static Result<std::unique_ptr<CommitLog>> open(const std::string& path,
                                                 const LedgerOptions& ledger);
  ~CommitLog();
  CommitLog(const CommitLog&) = delete;
  CommitLog& operator=(const CommitLog&) = delete;

  // Writes one line. On return the kernel has it, so it survives a killed process. A lineage
  // continues an earlier one: its first reported step replaces that step and all later ones there.
  // Lineages between the two do not count.
  void write(const CommittedStep& step);
  // Returns the error of the first failed write, else ok.
  const Status& status() const { return status_; }

 private:
  CommitLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void append(const std::string& line);

  const std::string path_;
  const int fd_;
  Status status_{};
};

// The result of an audit of logs.
struct CommitAudit {
  uint64_t steps = 0;      // with committed samples
  uint64_t samples = 0;    // committed by these steps
  uint64_t epochs = 0;     // before the present one
  uint64_t under_way = 0;  // committed samples of the present epoch, 0 if none was begun
  uint64_t missing = 0;    // samples
  uint64_t repeated = 0;   // samples
  uint64_t undone = 0;     // samples of lineages, after the steps from which others continued
  uint64_t cut_lines = 0;  // incomplete lines of killed processes
  uint64_t problems = 0;
  std::vector<std::string> first_problems{};  // up to 100, one sentence each
};

struct CommitAuditOptions {
  bool complete = false;  // all epochs of the ledger must be complete; else the last need not be
  // The logs of further jobs, in order. Each job continued from a checkpoint of the previous one,
  // as a job of its own (CheckpointOptions::resume). Its first reported step cancels the earlier
  // ones from there on. Not for logs of learners, whose steps restart with each server.
  std::vector<std::vector<std::string>> then{};
};

// Checks, from the logs of all members of a job, that each sample was committed once per epoch.
// Errors: kNotFound, kUnavailable, kCorrupt (a file is not such a log), kInvalidArgument (logs of
//         ledgers with other options). Problems of the samples are results, not errors.
FFDL_API Result<CommitAudit> audit_commit_logs(const std::vector<std::string>& paths,
                                               const CommitAuditOptions& options = {});

}  // namespace ffdl
