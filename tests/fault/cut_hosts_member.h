#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/data/commit_log.h"
#include "ffdl/data/sample_ledger.h"

// Declares a member of a job whose hosts are cut off from each other, and its report.
namespace ffdl::cuts {

inline constexpr int kMembersMax = 8;
inline constexpr int kStoreHost = 0;
inline constexpr auto kLease = std::chrono::milliseconds(500);
inline constexpr const char* kSecret = "of the job between hosts";

// The end of a member's process.
enum Ended : int { kFinished = 0, kFailed = 1, kCancelled = 2 };

// State shared by the members and the process that cuts.
struct Board {
  std::atomic<uint64_t> port;        // port of the store
  std::atomic<uint64_t> epoch;       // the newest that a member has begun
  std::atomic<uint64_t> last_epoch;  // all members finish once it has begun
  struct Slot {
    std::atomic<int64_t> applied_at;  // last applied step: ns of the steady clock
    std::atomic<uint64_t> step;
    std::atomic<uint64_t> generation;
    std::atomic<uint64_t> size;    // size of the world of that generation
    std::atomic<bool> is_done;     // the job's last step is applied
    std::atomic<int64_t> over_at;  // reported end of this life; 0: not yet
  };
  std::array<Slot, kMembersMax> slots;
};

struct Part {
  int number = 0;  // number of its slot
  int host = 0;
  std::string folder{};  // folder of its logs
  std::string store_url{};
  std::chrono::nanoseconds fence_after = std::chrono::seconds(30);
  int min_workers = 1;
  std::string address{};  // empty: the address of its host
  std::chrono::nanoseconds lease = kLease;
};

LedgerOptions data_of_job();

// Serves the job's store on its host, and publishes the port. Runs as a process of its own.
int serve_store(const std::string& folder, Board& board);
std::string store_url(const Board& board);

// Trains until the job is done or this life is over.
Ended take_part(const Part& part, Board& board);

// Compares the records that all members have left in the folder: each sample was used once in each
// epoch, and equal steps have equal states. Adds a line to `problems` for each finding.
Result<CommitAudit> audit(const std::string& folder, std::vector<std::string>& problems);

}  // namespace ffdl::cuts
