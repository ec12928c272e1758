#include "launch/node_board.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "ffdl/job_status.h"

namespace ffdl::launch {

using base::MutexLock;

namespace {

// Of whole seconds a quarter would be none at all.
constexpr Duration kWatchPiece = Duration(base::kNodeHeartbeat) / 4;
static_assert(kWatchPiece > Duration::zero());

}  // namespace

NodeBoard::NodeBoard(Store& store, Runtime& runtime, Event& bell, std::string job)
    : store_(store),
      runtime_(runtime),
      bell_(bell),
      job_(std::move(job)),
      keys_(job_),
      changed_(runtime.make_event()) {}

NodeBoard::~NodeBoard() { stop_tasks(); }

Status NodeBoard::open(const NodeStatus& node, int wanted) {
  number_ = node.node;
  FFDL_RETURN_IF_ERROR(take_place(node));
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, job_));
  if (run.nodes.size() == 1) {
    FFDL_RETURN_IF_ERROR(store_.remove(keys_.outcome()));
    FFDL_RETURN_IF_ERROR(store_.put(keys_.wanted(), std::to_string(wanted)).status());
  }
  FFDL_RETURN_IF_ERROR(look());
  keeper_ = runtime_.spawn("ffdl-node", [this](const StopToken& stop) { keep(stop); });
  watcher_ = runtime_.spawn("ffdl-node-watch", [this](const StopToken& stop) { watch(stop); });
  return {};
}

Status NodeBoard::take_place(const NodeStatus& node) {
  const Time patience = runtime_.now() + base::kNodeLease + base::kNodeHeartbeat;
  const std::string key = keys_.node(number_);
  const std::string record = encode(node);
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const Revision seen, store_.wait_change(key, 0, kNoDeadline));
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    next_renewal_ = runtime_.now() + base::kNodeHeartbeat;
    const auto put = store_.compare_and_put(key, 0, record, lease_);
    if (put.ok()) break;
    FFDL_RETURN_IF_ERROR(store_.end_lease(lease_));
    if (put.status().code() != StatusCode::kConflict) return put.status();
    if (!store_.wait_change(key, seen, patience).ok() || runtime_.now() >= patience) {
      return base::make_error(StatusCode::kConflict,
                              "run node {} of job '{}': another supervisor does; end that one, or "
                              "use another job name or node rank",
                              number_, job_);
    }
  }
  told_ = record;
  MutexLock lock(mutex_);
  record_ = record;
  return {};
}

void NodeBoard::publish(const NodeStatus& node) {
  std::string record = encode(node);
  {
    MutexLock lock(mutex_);
    if (record == record_) return;
    record_ = std::move(record);
  }
  changed_->set();
}

void NodeBoard::report_end(std::string id) {
  {
    MutexLock lock(mutex_);
    ended_.push_back(std::move(id));
  }
  changed_->set();
}

std::vector<std::string> NodeBoard::take_told() {
  MutexLock lock(mutex_);
  return std::exchange(told_ends_, {});
}

NodeBoard::View NodeBoard::view() const {
  MutexLock lock(mutex_);
  return view_;
}

Status NodeBoard::close(std::string_view outcome) {
  stop_tasks();
  const Status told = turn();
  Status put;
  if (!outcome.empty()) put = store_.put(keys_.outcome(), outcome).status();
  const Status ended = store_.end_lease(lease_);
  if (!told.ok()) return told;
  return put.ok() ? ended : put;
}

// The watcher ends with its present wait, which is a short one.
void NodeBoard::stop_tasks() {
  if (keeper_ != nullptr) keeper_->request_stop();
  if (watcher_ != nullptr) watcher_->request_stop();
  changed_->set();
  keeper_.reset();
  watcher_.reset();
}

// --- what this node says -------------------------------------------------------------------------

void NodeBoard::keep(const StopToken& stop) {
  std::string reason;
  while (true) {
    changed_->reset();
    if (stop.stop_requested()) return;
    const Status outcome = turn();
    if (!outcome.ok() && outcome.message() != reason) {
      base::log_warning("job '{}': {}; trying again", job_, outcome.message());
    }
    reason = outcome.message();
    changed_->wait_until(outcome.ok() ? next_renewal_ : runtime_.now() + base::kStoreRetry);
  }
}

Status NodeBoard::turn() {
  while (true) {
    std::string id;
    {
      MutexLock lock(mutex_);
      if (ended_.empty()) break;
      id = ended_.front();
    }
    FFDL_RETURN_IF_ERROR(tell_end(id));
    {
      MutexLock lock(mutex_);
      ended_.erase(ended_.begin());
      told_ends_.push_back(id);
    }
    bell_.set();
  }
  FFDL_RETURN_IF_ERROR(keep_lease());
  std::string record;
  {
    MutexLock lock(mutex_);
    record = record_;
  }
  if (record == told_) return {};
  const Status put = store_.put(keys_.node(number_), record, lease_).status();
  if (put.ok()) told_ = std::move(record);
  if (put.code() != StatusCode::kNotFound) return put;
  next_renewal_ = runtime_.now();  // the lease has ended: the next turn takes another
  changed_->set();
  return {};
}

Status NodeBoard::keep_lease() {
  if (runtime_.now() < next_renewal_) return {};
  const Status kept = store_.keep_alive(lease_);
  if (kept.code() == StatusCode::kNotFound) {
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    told_.clear();
  } else {
    FFDL_RETURN_IF_ERROR(kept);
  }
  next_renewal_ = runtime_.now() + base::kNodeHeartbeat;
  return {};
}

Status NodeBoard::tell_end(const std::string& id) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t incarnation, last_incarnation(store_, job_, id));
  if (incarnation == 0) return {};  // it never joined
  return report_death(store_, job_, {id, incarnation});
}

// --- what others say -----------------------------------------------------------------------------

void NodeBoard::watch(const StopToken& stop) {
  Revision seen = 0;
  while (!stop.stop_requested()) {
    const auto changed = store_.wait_change(keys_.prefix(), seen, runtime_.now() + kWatchPiece);
    if (changed.status().code() == StatusCode::kTimeout) continue;
    if (changed.ok() && look().ok()) {
      seen = *changed;
    } else {  // the other task says why
      runtime_.make_event()->wait_until(runtime_.now() + base::kStoreRetry);
    }
  }
}

Status NodeBoard::look() {
  View view;
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, job_));
  view.wanted = run.wanted_workers;
  view.handing_over = handing_over(run);
  for (const NodeStatus& node : run.nodes) {
    if (node.node == number_) continue;
    for (const WorkerStatus& worker : node.workers) {
      const bool is_wanted = place_of(run.wanted_workers, number_of(worker.id)) >= 0;
      view.lost_elsewhere += is_wanted && worker.phase == "lost";
    }
  }
  const auto outcome = store_.get(keys_.outcome());
  if (outcome.ok()) view.outcome = outcome->value;
  if (!outcome.ok() && outcome.status().code() != StatusCode::kNotFound) return outcome.status();
  {
    MutexLock lock(mutex_);
    if (view.wanted.empty()) view.wanted = view_.wanted;  // nobody of ours wrote what stands there
    view_ = std::move(view);
  }
  bell_.set();
  return {};
}

}  // namespace ffdl::launch
