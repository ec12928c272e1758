#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/ledger/audit.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/store.h"
#include "sim/process.h"

namespace ffdl::sim {

// Checks the samples of workers that share a ledger in a store, over a whole simulation.
class LedgerChecker {
 public:
  explicit LedgerChecker(const LedgerOptions& data) : data_(data) {}

  // Checks a commit that a worker reports.
  void on_committed(uint64_t lineage, const CommittedStep& step, const std::string& worker);
  // Records that a worker has used a gradient of so many samples.
  void on_used(uint64_t samples) { used_ += samples; }
  // Records that commit() returned ok for so many samples.
  void on_acknowledged(uint64_t samples) { acknowledged_ += samples; }
  // Records that the job continues from a checkpoint. Samples used since it are not counted.
  void on_restart() { has_restarted_ = true; }
  // Checks the end: each sample is committed once, and `repeated` counts all further uses.
  void check_end(uint64_t repeated);
  void violation(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  const std::string& violation() const { return violation_; }
  uint64_t commits() const { return told_.size(); }

 private:
  const LedgerOptions data_;
  std::map<std::pair<uint64_t, uint64_t>, CommittedStep> told_;  // by lineage and step
  uint64_t used_ = 0;
  uint64_t acknowledged_ = 0;
  bool has_restarted_ = false;
  std::string violation_;
};

// The state that all workers of a simulation share.
struct LedgerJob {
  SimRuntime& runtime;
  LedgerChecker& checker;
  LedgerOptions data;
  Duration lease{};
  Duration compute_max{};
  uint64_t batch_max = 1;
  uint64_t lineage = 1;
  std::vector<std::byte> from{};   // the checkpoint with which that lineage begins
  std::vector<std::byte> saved{};  // the newest checkpoint
  uint64_t returns = 0;            // of workers that others had removed
};

// A process that takes samples, computes, uses the gradient and commits, until all is done.
class LedgerWorker final : public Process {
 public:
  LedgerWorker(LedgerJob& job, SimNode& node, std::unique_ptr<FaultyStore> store, std::string id);

  const Member* self() const override { return ledger_ ? &self_ : nullptr; }
  bool may_use_state() const override { return ledger_ != nullptr; }
  bool is_done() const { return is_done_; }
  uint64_t lineage() const { return lineage_; }

 private:
  void run();
  Status live();
  Status make_step();
  // Repeats a call without an answer, until it is done or cannot be.
  template <class Call>
  Status insist(Call&& call);

  LedgerJob& job_;
  SimRuntime& runtime_;
  const uint64_t lineage_;
  const Member self_{id_};
  std::unique_ptr<SampleLedger> ledger_;
  bool is_done_ = false;
  std::unique_ptr<Task> task_;  // last: it uses all members above
};

}  // namespace ffdl::sim
