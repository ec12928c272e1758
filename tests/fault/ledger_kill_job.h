#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// Declares the jobs of ledger_kill_test: workers that share a ledger, and the parts that differ by
// its kind.
namespace ffdl::ledger_kill {

inline constexpr int kWorkersMax = 4;
inline constexpr uint64_t kBatch = 3;
// The lease in a store. A busy machine keeps it alive; a worker that stops for longer is taken for
// dead.
inline constexpr Duration kLease = std::chrono::seconds(1);

// State shared by the parent and the workers.
struct Board {
  std::atomic<uint64_t> used;      // samples in used gradients
  std::atomic<uint64_t> repeated;  // as the ledger counts them
  std::atomic<bool> is_done;
  std::array<std::atomic<bool>, kWorkersMax> leave;
};

inline LedgerOptions data_of(uint64_t epochs) {
  return {.samples = 100, .partition_samples = 7, .epochs = epochs, .seed = 5};
}

class Job {
 public:
  virtual ~Job() = default;
  // Runs a worker in a process of its own, until all is done or it is asked to leave.
  virtual Status train(int number) = 0;
  // Returns true if the workers need a server. It runs in a process of its own until that is
  // killed, and is then served again.
  virtual bool has_server() const { return false; }
  virtual Status serve() { return {}; }
  virtual Status wait_served() { return {}; }
  // Runs after all workers have ended and the server was killed. Returns the problem, or an empty
  // text.
  virtual std::string check(const CommitAudit& audit) = 0;
};

struct JobOptions {
  std::string folder;  // for logs, and for the needs of the kind
  uint64_t epochs = 1;
  uint64_t staleness = 0;  // bound of a parameter server; 0: learners are not bounded
};

// Makes a job with a ledger in a store over tcp://, which one of the workers serves.
std::unique_ptr<Job> make_store_job(const JobOptions& options, Board& board);
// Makes a job with the ledgers of a parameter server's learners.
std::unique_ptr<Job> make_slot_job(const JobOptions& options, Board& board);

}  // namespace ffdl::ledger_kill
