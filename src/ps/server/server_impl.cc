#include "ps/server/server_impl.h"

#include <unistd.h>

#include <thread>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "ps/segment/stats.h"

namespace ffdl {

using ps::CutRequest;
using ps::ServerControl;
using ps::ShardWorker;

ParameterServer::Impl::~Impl() {
  // A child made by fork() has a copy of this object, but not the server.
  if (!owner_.held()) return;
  if (control_) {
    if (Status stopped = stop(); !stopped.ok())
      base::log_error("stop a parameter server: {}", stopped.message());
  }
  // Also if the server never ran: processes that wait for it must see its end.
  region_.server().closing.store(1, std::memory_order_seq_cst);
  region_.server().ended.store(1, std::memory_order_seq_cst);
  region_.server().progress.ring();
  segment_->unlink();
}

void ParameterServer::Impl::sign() {
  ps::ServerWords& words = region_.server();
  words.epoch.fetch_add(1);
  words.pid.store(getpid());
  words.ended.store(0);
  words.closing.store(0);
}

Status ParameterServer::Impl::start() {
  base::MutexLock lock(calls_mutex_);
  if (!owner_.held()) {
    return base::make_error(
        StatusCode::kCancelled,
        "start parameter server '{}': this process is a fork of the one that owns it; start it "
        "there, or make another here",
        segment_->name());
  }
  if (control_)
    return base::invalid_argument("start parameter server '{}': it runs already; stop() it first",
                                  segment_->name());
  auto control = std::make_unique<ServerControl>();
  Workers workers;
  FFDL_RETURN_IF_ERROR(device_.pin_gradients(region_));
  for (int k = 0; k < region_.shards(); ++k) {
    FFDL_ASSIGN_OR_RETURN(auto device, device_.make_fold(region_, k));
    workers.push_back(
        std::make_shared<ShardWorker>(region_, *rule_, k, *control, std::move(device)));
    FFDL_ASSIGN_OR_RETURN(const bool recovered, workers.back()->recover());
    if (recovered) region_.server().recoveries.fetch_add(1);
  }
  control_ = std::move(control);
  region_.server().ended.store(0, std::memory_order_seq_cst);
  region_.server().closing.store(0, std::memory_order_seq_cst);
  Status started = start_threads(workers);
  if (!started.ok()) static_cast<void>(stop_threads().ok());  // the server is not running again
  return started;
}

Status ParameterServer::Impl::start_threads(const Workers& workers) {
  for (int k = 0; k < region_.shards(); ++k) {
    const auto run = [this, k, worker = workers[static_cast<size_t>(k)]](const StopToken&) {
      run_shard(k, *worker);
    };
    FFDL_ASSIGN_OR_RETURN(base::Thread shard,
                          base::Thread::start(fmt::format("ffdl-shard-{}", k), run));
    shards_.push_back(std::move(shard));
  }
  FFDL_ASSIGN_OR_RETURN(watcher_, base::Thread::start("ffdl-watch", [this](const StopToken& stop) {
                          watch_learners(stop);
                        }));
  return {};
}

void ParameterServer::Impl::run_shard(int k, ShardWorker& worker) {
  const int bound = binding_.bind_this_thread(k) ? 1 : 0;
  threads_bound_.fetch_add(bound, std::memory_order_relaxed);  // for display: orders nothing
  Status ran = worker.run();
  if (worker.has_device() && !ran.ok() && ran.code() != StatusCode::kCorrupt) {
    base::log_error("parameter server '{}': the processor folds shard {} from now on: {}",
                    segment_->name(), k, ran.message());
    device_failed_.store(true, std::memory_order_relaxed);  // for display: orders nothing
    ran = worker.leave_device();
    if (ran.ok()) ran = worker.run();
  }
  if (!ran.ok()) control_->fail(std::move(ran));
  threads_bound_.fetch_sub(bound, std::memory_order_relaxed);
}

Status ParameterServer::Impl::stop() {
  base::MutexLock lock(calls_mutex_);
  if (!control_ || !owner_.held()) return {};
  return stop_threads();
}

Status ParameterServer::Impl::stop_threads() {
  control_->stop_after(refuse_publications());
  region_.server().work.ring();
  for (base::Thread& shard : shards_) shard.join();
  shards_.clear();
  watcher_.reset();
  Status result = control_->failure();
  control_.reset();
  region_.server().ended.store(1, std::memory_order_seq_cst);
  region_.server().progress.ring();
  return result;
}

// Refuses new publications. Everything published when this returns is folded before the threads
// end. Learners refuse later publications themselves. A learner between its check of `closing` and
// its store to pub is waited for, unless it is dead.
std::vector<uint64_t> ParameterServer::Impl::refuse_publications() {
  region_.server().closing.store(1, std::memory_order_seq_cst);
  std::vector<uint64_t> targets;
  for (int l = 0; l < region_.learners_max(); ++l) {
    const ps::LearnerWords& words = region_.learner(l);
    while (words.publishing.load(std::memory_order_seq_cst) != 0 &&
           shm::role_is_held(segment_->fd(), shm::learner_role(l))) {
      std::this_thread::yield();
    }
    targets.push_back(words.pub.load(std::memory_order_seq_cst));
  }
  return targets;
}

void ParameterServer::Impl::watch_learners(const StopToken& stop) {
  while (!stop.stop_requested()) {
    for (int l = 0; l < region_.learners_max(); ++l) {
      if (region_.learner(l).attached.load(std::memory_order_relaxed) != 0) reclaim_if_dead(l);
    }
    std::this_thread::sleep_for(base::kLivenessInterval);
  }
}

void ParameterServer::Impl::reclaim_if_dead(int l) {
  if (shm::role_is_held(segment_->fd(), shm::learner_role(l))) return;
  Result<shm::RoleLock> slot = shm::RoleLock::acquire(segment_->fd(), shm::learner_role(l));
  if (slot.ok()) ps::reclaim_dead_learner(*segment_, region_, l);
}

ParameterServerStats ParameterServer::Impl::stats() const {
  ParameterServerStats stats = ps::read_stats(region_, segment_->fd());
  stats.memory = ps::observe_memory(region_, huge_pages_);
  stats.memory.threads_bound = threads_bound_.load(std::memory_order_relaxed);
  stats.memory.note = binding_.note();
  const bool failed = device_failed_.load(std::memory_order_relaxed);
  if (device_.fold() && !failed) stats.device = device_.fold().gpu.number;
  return stats;
}

Result<ParameterServerCut> ParameterServer::Impl::cut(Time deadline) {
  base::MutexLock lock(calls_mutex_);
  auto request = std::make_shared<CutRequest>(region_);
  if (!control_) {
    for (int k = 0; k < region_.shards(); ++k) request->notice(region_);
    for (int k = 0; k < region_.shards(); ++k) request->copy_shard(region_, k);
    return request->take();
  }
  control_->set_cut(request);
  region_.server().work.ring();
  const bool done = request->wait_done(deadline);
  control_->set_cut(nullptr);
  if (control_->failed()) return control_->failure();
  if (!done) {
    return base::make_error(StatusCode::kTimeout,
                            "cut parameter server '{}': not all shards reached it; allow more time",
                            segment_->name());
  }
  return request->take();
}

}  // namespace ffdl
