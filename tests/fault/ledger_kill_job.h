#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ffdl/commit_log.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/status.h"

// What ledger_kill_test plays with: workers that share a ledger, and what is special to its kind.
namespace ffdl::ledger_kill {

inline constexpr int kWorkersMax = 4;
inline constexpr uint64_t kBatch = 3;
// Of a store: busy machines keep it alive; one that is stopped for longer is taken for dead.
inline constexpr Duration kLease = std::chrono::seconds(1);

// What the parent and the workers see of each other.
struct Board {
  std::atomic<uint64_t> used;      // samples, in gradients
  std::atomic<uint64_t> repeated;  // as the ledger counts them
  std::atomic<bool> is_done;
  std::array<std::atomic<bool>, kWorkersMax> leave;
};

inline PartitionLedgerOptions data_of(uint64_t epochs) {
  return {.samples = 100, .partition_samples = 7, .epochs = epochs, .seed = 5};
}

class Job {
 public:
  virtual ~Job() = default;
  // A worker, until all is done or it shall leave. In a process of its own.
  virtual Status train(int number) = 0;
  // What workers cannot do without, in a process of its own until that is killed; false: there is
  // nothing. Then it is served anew.
  virtual bool has_server() const { return false; }
  virtual Status serve() { return {}; }
  virtual Status wait_served() { return {}; }
  // All workers have ended, and the server was killed. What is wrong, or nothing.
  virtual std::string check(const CommitAudit& audit) = 0;
};

struct JobOptions {
  std::string folder;  // for logs, and for what the kind needs
  uint64_t epochs = 1;
  uint64_t staleness = 0;  // of a parameter server; 0: learners are not bounded
};

// A StoreLedger over tcp://, which one of the workers serves.
std::unique_ptr<Job> make_store_job(const JobOptions& options, Board& board);
// SlotLedgers of a parameter server's learners.
std::unique_ptr<Job> make_slot_job(const JobOptions& options, Board& board);

}  // namespace ffdl::ledger_kill
