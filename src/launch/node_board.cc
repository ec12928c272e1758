#include "launch/node_board.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "ffdl/membership.h"

namespace ffdl::launch {

using base::MutexLock;

namespace {

// Divides a Duration: a quarter of whole seconds would be zero.
constexpr Duration kWatchPiece = Duration(base::kNodeHeartbeat) / 4;
static_assert(kWatchPiece > Duration::zero());

// Returns " (process 123)" of the supervisor that wrote this record; empty: there is none.
std::string process_in(Store& store, const std::string& key) {
  const auto entry = store.get(key);
  if (!entry.ok()) return {};
  const auto node = parse_node(entry->value);
  return node.ok() ? fmt::format(" (process {})", node->process) : "";
}

}  // namespace

NodeBoard::NodeBoard(Store& store, Runtime& runtime, Event& bell, std::string job)
    : store_(store),
      runtime_(runtime),
      bell_(bell),
      job_(std::move(job)),
      keys_(job_),
      changed_(runtime.make_event()) {}

// One that was not closed has begun nothing, or failed. Its node is free for the next one at once.
NodeBoard::~NodeBoard() {
  stop_tasks();
  if (lease_ != kNoLease) static_cast<void>(end_lease());  // it ends by itself otherwise
}

Status NodeBoard::end_lease() { return store_.end_lease(std::exchange(lease_, kNoLease)); }

Status NodeBoard::open(const NodeStatus& node, int wanted) {
  return open_free(node.node, 1, [&](int) { return node; }, wanted).status();
}

Result<int> NodeBoard::open_free(int first, int count, const RecordOf& record_of, int wanted) {
  FFDL_RETURN_IF_ERROR(take_place(first, count, record_of));
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, job_));
  if (run.nodes.size() == 1) {
    FFDL_RETURN_IF_ERROR(store_.remove(keys_.outcome()));
    FFDL_RETURN_IF_ERROR(store_.put(keys_.wanted(), std::to_string(wanted)).status());
  }
  FFDL_RETURN_IF_ERROR(look());
  keeper_ = runtime_.spawn("ffdl-node", [this](const StopToken& stop) { keep(stop); });
  watcher_ = runtime_.spawn("ffdl-node-watch", [this](const StopToken& stop) { watch(stop); });
  if (keeper_ == nullptr || watcher_ == nullptr) return base::no_thread("ffdl-node");
  return number_;
}

Status NodeBoard::take_place(int first, int count, const RecordOf& record_of) {
  // A store begins leases anew when it is started again, and ends them late on a busy machine.
  const Time patience = runtime_.now() + 2 * base::kNodeLease;
  const std::string places = count == 1 ? keys_.node(first) : keys_.nodes();
  while (true) {
    const bool is_last = runtime_.now() >= patience;
    FFDL_ASSIGN_OR_RETURN(const Revision seen, store_.wait_change(places, 0, kNoDeadline));
    FFDL_ASSIGN_OR_RETURN(const bool is_taken, take_free(first, count, record_of));
    if (is_taken) return {};
    if (is_last) return all_taken(first, count);
    const auto changed = store_.wait_change(places, seen, patience);
    if (!changed.ok() && changed.status().code() != StatusCode::kTimeout) return changed.status();
  }
}

// Takes the first number that is free. Returns false if none is. The number of a node that fails
// after this is free at once, as the destructor ends the lease.
Result<bool> NodeBoard::take_free(int first, int count, const RecordOf& record_of) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store_.list(keys_.nodes()));
  std::set<std::string> taken;
  for (const Entry& entry : entries) taken.insert(entry.key);
  for (int number = first; number < first + count; ++number) {
    const std::string key = keys_.node(number);
    if (taken.contains(key)) continue;
    if (lease_ == kNoLease) {
      FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
      next_renewal_ = runtime_.now() + base::kNodeHeartbeat;
    }
    std::string record = encode(record_of(number));
    const auto put = store_.compare_and_put(key, 0, record, lease_);
    if (put.status().code() == StatusCode::kConflict) continue;  // another node was faster
    FFDL_RETURN_IF_ERROR(put.status());
    number_ = number;
    told_at_ = *put;
    told_ = record;
    MutexLock lock(mutex_);
    record_ = std::move(record);
    return true;
  }
  if (lease_ != kNoLease) FFDL_RETURN_IF_ERROR(end_lease());
  return false;
}

Status NodeBoard::all_taken(int first, int count) const {
  if (count > 1) {
    return base::make_error(StatusCode::kConflict,
                            "take a rank of job '{}': each of the nodes {} to {} has a live "
                            "supervisor; end one, raise --nnodes, or use another job name",
                            job_, first, first + count - 1);
  }
  return base::make_error(StatusCode::kConflict,
                          "run node {} of job '{}': another supervisor runs it{}; end that one, or "
                          "use another job name or node rank",
                          first, job_, process_in(store_, keys_.node(first)));
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

std::vector<NodeBoard::ReportedEnd> NodeBoard::take_reported() {
  MutexLock lock(mutex_);
  return std::exchange(reported_, {});
}

NodeBoard::View NodeBoard::view() const {
  MutexLock lock(mutex_);
  return view_;
}

Status NodeBoard::place() const {
  MutexLock lock(mutex_);
  return place_;
}

Status NodeBoard::close(std::string_view outcome) {
  stop_tasks();
  Status told = turn();
  for (int i = 0; i < base::kContentionMax && told.ok() && told_.empty() && place().ok(); ++i) {
    told = turn();  // the lease had lapsed
  }
  if (!place().ok()) return end_lease();  // the other supervisor reports the outcome
  Status put;
  if (!outcome.empty()) put = store_.put(keys_.outcome(), outcome).status();
  const Status ended = end_lease();
  if (!told.ok()) return told;
  return put.ok() ? ended : put;
}

// Stops both tasks. The watcher ends with its present wait, which is a short one.
void NodeBoard::stop_tasks() {
  if (keeper_ != nullptr) keeper_->request_stop();
  if (watcher_ != nullptr) watcher_->request_stop();
  changed_->set();
  keeper_.reset();
  watcher_.reset();
}

// --- records of this node ------------------------------------------------------------------------

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

// Renews, publishes and reports in this order. After a lapsed lease the board learns whether the
// node is still its own before it reports ends. Another supervisor's workers have the same ids.
Status NodeBoard::turn() {
  if (!place().ok()) return {};
  FFDL_RETURN_IF_ERROR(keep_lease());
  FFDL_RETURN_IF_ERROR(tell_record());
  return told_.empty() ? Status() : tell_ends();
}

Status NodeBoard::tell_ends() {
  while (true) {
    std::string id;
    {
      MutexLock lock(mutex_);
      if (ended_.empty()) return {};
      id = ended_.front();
    }
    FFDL_ASSIGN_OR_RETURN(ReportedEnd reported, tell_end(id));
    {
      MutexLock lock(mutex_);
      ended_.erase(ended_.begin());
      reported_.push_back(std::move(reported));
    }
    bell_.set();
  }
}

Status NodeBoard::tell_record() {
  std::string record;
  {
    MutexLock lock(mutex_);
    record = record_;
  }
  if (record == told_) return {};
  const auto put = store_.compare_and_put(keys_.node(number_), told_at_, record, lease_);
  if (put.ok()) {
    told_ = std::move(record);
    told_at_ = *put;
    return {};
  }
  told_.clear();  // the next turn publishes it again
  if (put.status().code() == StatusCode::kConflict) {
    FFDL_RETURN_IF_ERROR(examine_place());
  } else if (put.status().code() == StatusCode::kNotFound) {
    next_renewal_ = runtime_.now();  // the lease has ended: the next turn takes another
  } else {
    return put.status();
  }
  changed_->set();
  return {};
}

// Finds out why the record is not the one that this supervisor wrote last. It ended with the lease,
// or the answer to a put was lost, or another supervisor has written its own.
Status NodeBoard::examine_place() {
  const std::string key = keys_.node(number_);
  const auto entry = store_.get(key);
  if (entry.status().code() == StatusCode::kNotFound) {
    told_at_ = 0;
    return {};
  }
  if (!entry.ok()) return entry.status();
  if (entry->lease == lease_) {
    told_at_ = entry->revision;
    return {};
  }
  const std::string process = process_in(store_, key);
  {
    MutexLock lock(mutex_);
    place_ = base::make_error(StatusCode::kConflict,
                              "run node {} of job '{}': the store was out of reach for {} s, and "
                              "another supervisor{} has taken the node over; check that one",
                              number_, job_, base::kNodeLease / std::chrono::seconds(1), process);
  }
  bell_.set();
  return {};
}

Status NodeBoard::keep_lease() {
  const Time start = runtime_.now();  // this process may be stopped while the store answers
  if (start < next_renewal_) return {};
  const Status kept = store_.keep_alive(lease_);
  if (kept.code() == StatusCode::kNotFound) {
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    told_.clear();
  } else {
    FFDL_RETURN_IF_ERROR(kept);
  }
  next_renewal_ = start + base::kNodeHeartbeat;
  return {};
}

// Reports a worker's end. It reads the incarnation first: another supervisor starts its workers
// once the node is its own, so they have later incarnations.
Result<NodeBoard::ReportedEnd> NodeBoard::tell_end(const std::string& id) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t incarnation, last_incarnation(store_, job_, id));
  if (incarnation == 0) {  // it never joined
    FFDL_ASSIGN_OR_RETURN(const JobStatus status, read_job(store_, job_));
    return ReportedEnd{id, status.world.generation > 0 || !status.members.empty()};
  }
  const auto entry = store_.get(keys_.node(number_));
  if (!entry.ok() || entry->lease != lease_) {
    told_.clear();  // the next turn finds out which supervisor has the node
    return entry.ok() ? base::make_error(StatusCode::kConflict,
                                         "report the end of '{}': another supervisor has node {}",
                                         id, number_)
                      : entry.status();
  }
  FFDL_RETURN_IF_ERROR(report_death(store_, job_, {id, incarnation}));
  return ReportedEnd{id};
}

// --- records of others ---------------------------------------------------------------------------

void NodeBoard::watch(const StopToken& stop) {
  Revision seen = 0;
  while (!stop.stop_requested()) {
    const auto changed = store_.wait_change(keys_.prefix(), seen, runtime_.now() + kWatchPiece);
    if (changed.status().code() == StatusCode::kTimeout) continue;
    if (changed.ok() && look().ok()) {
      seen = *changed;
    } else {  // the other task logs the reason
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
    if (view.wanted.empty()) view.wanted = view_.wanted;  // no supervisor wrote this record
    view_ = std::move(view);
  }
  bell_.set();
  return {};
}

}  // namespace ffdl::launch
