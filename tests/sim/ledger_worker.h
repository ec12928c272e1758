#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/audit.h"
#include "ffdl/store_ledger.h"
#include "sim/process.h"

namespace ffdl::sim {

// What may not happen to the samples of workers that use a StoreLedger, over all of a simulation.
class LedgerChecker {
 public:
  explicit LedgerChecker(const PartitionLedgerOptions& data) : data_(data) {}

  // A worker tells a commit.
  void on_committed(uint64_t lineage, const CommittedStep& step, const std::string& worker);
  // A worker has used a gradient of so many samples.
  void on_used(uint64_t samples) { used_ += samples; }
  // A job goes on from a checkpoint: what was used since is not counted.
  void on_restart() { has_restarted_ = true; }
  // All is done: each sample is committed once, and what was used more often is in `repeated`.
  void check_end(uint64_t repeated);
  void violation(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  const std::string& violation() const { return violation_; }
  uint64_t commits() const { return told_.size(); }

 private:
  const PartitionLedgerOptions data_;
  std::map<std::pair<uint64_t, uint64_t>, CommittedStep> told_;  // by lineage and step
  uint64_t used_ = 0;
  bool has_restarted_ = false;
  std::string violation_;
};

// What all workers of a simulation share.
struct LedgerJob {
  SimRuntime& runtime;
  LedgerChecker& checker;
  PartitionLedgerOptions data;
  Duration lease{};
  Duration compute_max{};
  uint64_t batch_max = 1;
  uint64_t lineage = 1;
  std::vector<std::byte> from{};   // of that lineage
  std::vector<std::byte> saved{};  // the newest checkpoint
};

// A process that takes samples, computes, uses the gradient and commits, until all is done.
class LedgerWorker final : public Process {
 public:
  LedgerWorker(LedgerJob& job, SimNode& node, std::unique_ptr<FaultyStore> store, std::string id);

  const Member* self() const override { return ledger_ ? &ledger_->self() : nullptr; }
  bool may_use_state() const override { return ledger_ != nullptr; }
  bool is_done() const { return is_done_; }
  uint64_t lineage() const { return lineage_; }

 private:
  void run();
  Status live();
  Status make_step();
  // Until it is done or cannot be: what has no answer is asked again.
  template <class Call>
  Status insist(Call&& call);

  LedgerJob& job_;
  SimRuntime& runtime_;
  const uint64_t lineage_;
  std::unique_ptr<StoreLedger> ledger_;
  bool is_done_ = false;
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::sim
