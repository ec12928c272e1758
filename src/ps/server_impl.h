#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "ps/layout.h"
#include "ps/shard_worker.h"
#include "shm/liveness.h"
#include "shm/segment.h"

namespace ffdl {

class ParameterServer::Impl {
 public:
  Impl(shm::Segment segment, shm::RoleLock owner, ps::Region region,
       std::unique_ptr<UpdateRule> rule)
      : segment_(std::move(segment)),
        owner_(std::move(owner)),
        region_(std::move(region)),
        rule_(std::move(rule)) {}
  ~Impl();

  Status start();
  Status stop();
  bool failed() const { return control_ && control_->failed(); }
  Result<ParameterServerCut> cut(Time deadline);
  // Writes down who owns the segment from now on.
  void sign();

  const shm::Segment& segment() const { return segment_; }
  const ps::Region& region() const { return region_; }

 private:
  std::vector<uint64_t> refuse_publications();
  void watch_learners(StopToken stop);
  void reclaim_if_dead(int l);

  shm::Segment segment_;
  shm::RoleLock owner_;
  const ps::Region region_;
  const std::unique_ptr<UpdateRule> rule_;
  base::Mutex cut_mutex_;                       // one cut at a time
  std::unique_ptr<ps::ServerControl> control_;  // while running
  std::vector<base::Thread> shards_;
  std::optional<base::Thread> watcher_;
};

}  // namespace ffdl
