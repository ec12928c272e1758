#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/status.h"

namespace ffdl {

// What the steps of a job committed, as lines of JSON in a file of one member, so that anybody can
// prove afterwards that each sample was used once per epoch. Each member writes a log of its own;
// all that ever lived tell every step together.
//   options.on_stable = [&](const CommittedStep& step) { log->write(step); };
// Threads: one at a time.
class FFDL_API CommitLog {
 public:
  // Goes on with a log that is there. Errors: kUnavailable.
  static Result<std::unique_ptr<CommitLog>> open(const std::string& path,
                                                 const PartitionLedgerOptions& ledger);
  ~CommitLog();
  CommitLog(const CommitLog&) = delete;
  CommitLog& operator=(const CommitLog&) = delete;

  // One line, which is in the hands of the system when this returns: it outlives a killed process.
  // A job that began anew from a checkpoint has another lineage: its first step takes all back that
  // earlier lineages told from that step on.
  void write(const CommittedStep& step);
  // The first write that failed, if one did.
  const Status& status() const { return status_; }

 private:
  CommitLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void append(const std::string& line);

  const std::string path_;
  const int fd_;
  Status status_{};
};

// What logs prove.
struct CommitAudit {
  uint64_t steps = 0;      // that committed samples
  uint64_t samples = 0;    // that they committed
  uint64_t epochs = 0;     // before the one that is under way
  uint64_t under_way = 0;  // samples of the last epoch that were committed, 0 if none was begun
  uint64_t missing = 0;    // samples
  uint64_t repeated = 0;   // samples
  uint64_t cut_lines = 0;  // that a killed process did not write to their end
  uint64_t problems = 0;
  std::vector<std::string> first_problems{};  // up to 100, a sentence each
};

struct CommitAuditOptions {
  bool complete = false;  // all epochs of the ledger must be there; else the last may be under way
  // The logs of further jobs, in their order, each of which went on from a checkpoint of the one
  // before as a job of its own (CheckpointOptions::resume): the first step that it tells takes back
  // what those before told from there on. Not of learners, whose steps begin anew with each server.
  std::vector<std::vector<std::string>> then{};
};

// Whether each sample was committed once in each epoch, by the logs of all members of a job.
// Errors: kNotFound, kUnavailable, kCorrupt (a file is no such log), kInvalidArgument (logs of
//         ledgers with other options). What is wrong with the samples is no error of this call.
FFDL_API Result<CommitAudit> audit_commit_logs(const std::vector<std::string>& paths,
                                               const CommitAuditOptions& options = {});

}  // namespace ffdl
