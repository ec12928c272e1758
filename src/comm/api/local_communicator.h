#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/operation/request.h"
#include "ffdl/comm/communicator.h"

namespace ffdl::comm {

// The meeting point of the ranks of a local world. The last rank to arrive carries the operation
// out for all. Threads: all methods from any thread.
class LocalMeeting {
 public:
  explicit LocalMeeting(std::vector<Member> members)
      : members_(std::move(members)),
        requests_(members_.size()),
        aborted_(members_.size()),
        pairs_(members_.size()) {}

  // Reads `request` until it returns.
  Status run(int rank, const Request& request, Time deadline);
  // Runs a send or recv. The later of the two ranks copies.
  Status run_pair(int rank, const Request& request, Time deadline);
  void abort(int rank, Status why);

 private:
  int size() const { return static_cast<int>(members_.size()); }
  Status wait_for_others(int rank, uint64_t round, Time deadline) FFDL_REQUIRES(mutex_);
  void fail(int rank, Status why) FFDL_REQUIRES(mutex_);
  // Returns the failure as `rank` has to report it.
  Status failure_for(int rank) const FFDL_REQUIRES(mutex_);
  std::string missing() const FFDL_REQUIRES(mutex_);
  // Returns whether `other` waits with an operation of this kind for `rank`.
  bool is_met(int rank, Collective kind, int other) const FFDL_REQUIRES(mutex_);

  const std::vector<Member> members_;
  base::Mutex mutex_;
  base::Condition changed_;
  std::vector<const Request*> requests_ FFDL_GUARDED_BY(mutex_);  // null: has not arrived
  std::vector<bool> aborted_ FFDL_GUARDED_BY(mutex_);
  std::vector<const Request*> pairs_ FFDL_GUARDED_BY(mutex_);  // null: in no send or recv
  int arrived_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ FFDL_GUARDED_BY(mutex_) = 0;      // operations that succeeded
  bool executing_ FFDL_GUARDED_BY(mutex_) = false;  // a thread uses the buffers of all ranks
  Status failure_ FFDL_GUARDED_BY(mutex_);          // the first one; nothing runs after it
  int failed_rank_ FFDL_GUARDED_BY(mutex_) = 0;
};

class LocalCommunicator final : public Communicator {
 public:
  // The meeting lives as long as the last of its ranks.
  LocalCommunicator(World world, std::shared_ptr<LocalMeeting> meeting)
      : world_(std::move(world)), meeting_(std::move(meeting)) {}
  ~LocalCommunicator() override;

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kLocal; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;

 private:
  const World world_;
  const std::shared_ptr<LocalMeeting> meeting_;
};

// Carries out one operation of all ranks, requests[rank] each. The requests agree.
void carry_out(const std::vector<const Request*>& requests);

}  // namespace ffdl::comm
