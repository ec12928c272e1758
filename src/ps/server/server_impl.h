#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "ps/segment/layout.h"
#include "ps/segment/node_binding.h"
#include "ps/server/server_device.h"
#include "ps/server/shard_worker.h"
#include "shm/liveness.h"
#include "shm/segment.h"

namespace ffdl {

class ParameterServer::Impl {
 public:
  Impl(shm::Segment segment, shm::RoleLock owner, ps::Region region,
       std::unique_ptr<UpdateRule> rule, ps::NodeBinding binding, ps::ServerDevice device)
      : segment_(std::make_shared<shm::Segment>(std::move(segment))),
        owner_(std::move(owner)),
        region_(region),
        rule_(std::move(rule)),
        binding_(std::move(binding)),
        device_(std::move(device)),
        huge_pages_(shm::read_huge_pages(*segment_)) {}
  ~Impl();

  // Implement the functions of ParameterServer. Tests may pass replacement GPUs.
  static Result<std::unique_ptr<ParameterServer>> create(const ParameterServerOptions& options,
                                                         std::unique_ptr<UpdateRule> custom,
                                                         const ParameterServerCut* from,
                                                         const ps::OtherDevices& other);
  static Result<std::unique_ptr<ParameterServer>> adopt(std::string_view name,
                                                        std::unique_ptr<UpdateRule> custom,
                                                        const ps::OtherDevices& other);

  Status start();
  Status stop();
  bool failed() const { return control_ && control_->failed(); }
  Result<ParameterServerCut> cut(Time deadline);
  ParameterServerStats stats() const;
  // Records the owner of the segment in the segment.
  void sign();

  const std::shared_ptr<shm::Segment>& segment() const { return segment_; }
  const ps::Region& region() const { return region_; }

 private:
  using Workers = std::vector<std::shared_ptr<ps::ShardWorker>>;
  Status start_threads(const Workers& workers);
  Status stop_threads();  // with calls_mutex_
  std::vector<uint64_t> refuse_publications();
  void run_shard(int k, ps::ShardWorker& worker);
  void watch_learners(const StopToken& stop);
  void reclaim_if_dead(int l);

  // Shared with the learners of this process: one mapping serves all its threads.
  const std::shared_ptr<shm::Segment> segment_;
  shm::RoleLock owner_;
  const ps::Region region_;
  const std::unique_ptr<UpdateRule> rule_;
  const ps::NodeBinding binding_;
  ps::ServerDevice device_;
  const shm::HugePages huge_pages_;
  std::atomic<int> threads_bound_ = 0;
  std::atomic<bool> device_failed_ = false;     // in a shard, which the processor folds since then
  base::Mutex calls_mutex_;                     // start, stop and cut: one at a time
  std::unique_ptr<ps::ServerControl> control_;  // while running
  std::vector<base::Thread> shards_;
  std::optional<base::Thread> watcher_;
};

}  // namespace ffdl
