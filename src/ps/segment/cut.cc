#include "ps/segment/cut.h"

#include <algorithm>

#include "ps/segment/stats.h"

namespace ffdl::ps {

CutRequest::CutRequest(const Region& region)
    : unaware_(region.shards()), missing_(region.shards()) {
  const Config& config = region.config();
  cut_.rule = config.rule_name;
  cut_.weights.resize(config.parameters);
  cut_.state.assign(config.state_count, std::vector<float>(config.parameters));
}

bool CutRequest::notice(const Region& region) {
  if (unaware_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  round_ = region.round().number.load(std::memory_order_acquire);
  for (int l = 0; l < region.learners_max(); ++l) {
    targets_.push_back(region.learner(l).pub.load(std::memory_order_acquire));
  }
  fixed_.store(true, std::memory_order_release);
  return true;
}

bool CutRequest::reached(const Region& region, int k) const {
  if (!fixed()) return false;
  if (region.config().synchrony == Synchrony::kBulk) {
    return region.shard(k).round_folded.load(std::memory_order_relaxed) == round_;
  }
  for (int l = 0; l < region.learners_max(); ++l) {
    if (region.folded(k, l).load(std::memory_order_relaxed) != targets_[static_cast<size_t>(l)]) {
      return false;
    }
  }
  return true;
}

void CutRequest::copy_shard(const Region& region, int k) {
  const uint64_t all = region.config().parameters;
  const uint64_t begin = std::min(region.shard_begin(k) * kBlockFloats, all);
  const uint64_t count = std::min(region.shard_end(k) * kBlockFloats, all) - begin;
  std::copy_n(region.weights() + begin, count, cut_.weights.data() + begin);
  for (uint32_t s = 0; s < region.config().state_count; ++s) {
    std::copy_n(region.state(s) + begin, count, cut_.state[s].data() + begin);
  }
  if (k == 0) {
    cut_.version = region.version(0);
    cut_.updates = region.config().synchrony == Synchrony::kBulk ? round_ : cut_.version;
    for (uint32_t p = 0; p < region.config().partitions; ++p) {
      cut_.partitions.push_back(read_partition(region, p));
    }
  }
  base::MutexLock lock(mutex_);
  if (--missing_ == 0) condition_.notify_all();
}

bool CutRequest::wait_done(Time deadline) {
  base::MutexLock lock(mutex_);
  while (missing_ > 0) {
    if (!condition_.wait_until(mutex_, deadline)) break;
  }
  return missing_ == 0;
}

}  // namespace ffdl::ps
