#include "store/etcd/watch.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "store/etcd/messages.h"

namespace ffdl::store {

using base::make_error;
using base::MutexLock;

EtcdWatch::EtcdWatch(EtcdLink& link, Runtime& runtime, std::string prefix, Revision since)
    : link_(link),
      runtime_(runtime),
      prefix_(std::move(prefix)),
      since_(since),
      stopped_(runtime.make_event()),
      ended_(runtime.make_event()),
      newest_(since),
      task_(runtime.spawn("ffdl-watch", [this](const StopToken& stop) { run(stop); })) {}

EtcdWatch::~EtcdWatch() {
  if (!task_) return;
  task_->request_stop();
  stopped_->set();
  do {
    MutexLock lock(mutex_);
    if (streaming_ != nullptr) streaming_->stop();
  } while (!ended_->wait_until(runtime_.now() + base::kEtcdStopPoll));
}

std::optional<Revision> EtcdWatch::wait(Revision after, Time deadline) {
  const std::shared_ptr<Event> event = runtime_.make_event();
  std::optional<Revision> changed;
  while (true) {
    event->reset();  // before the check: a change after it sets the event again
    {
      MutexLock lock(mutex_);
      waiters_.insert(event);
      if (newest_ > after) changed = newest_;
    }
    if (changed || runtime_.now() >= deadline) break;
    event->wait_until(deadline);
  }
  MutexLock lock(mutex_);
  waiters_.erase(event);
  return changed;
}

void EtcdWatch::run(const StopToken& stop) {
  Duration backoff{};
  while (!stop.stop_requested()) {
    const EtcdLink::Member member = link_.member();
    const Time began = runtime_.now();
    const Status ended = read_stream(member, stop);
    if (stop.stop_requested()) break;
    if (ended.code() == StatusCode::kUnavailable) link_.is_away(began);
    // A stream that worked for a while is no failure of its member.
    if (ended.code() == StatusCode::kPeerLost && runtime_.now() - began > base::kStoreRetryMax) {
      backoff = Duration::zero();
    } else {
      link_.has_failed(member);
    }
    backoff = std::clamp<Duration>(2 * backoff, base::kStoreRetryMin, base::kStoreRetryMax);
    stopped_->wait_until(runtime_.now() + backoff);
  }
  ended_->set();
}

Status EtcdWatch::read_stream(const EtcdLink::Member& member, const StopToken& stop) {
  EtcdHttp connection(member.address, runtime_, link_.certificates());
  FFDL_RETURN_IF_ERROR(link_.authorize(connection, runtime_.now() + base::kEtcdConnectMax));
  Revision from = 0;
  {
    MutexLock lock(mutex_);
    from = newest_ + 1;
    streaming_ = &connection;
  }
  line_.clear();
  broken_ = {};
  Status ended = connection.stream(
      "/v3/watch", etcd::watch_request(prefix_, from),
      [&](std::string_view bytes) { return !stop.stop_requested() && take(bytes, member); });
  {
    MutexLock lock(mutex_);
    streaming_ = nullptr;
  }
  return broken_.ok() ? std::move(ended) : std::move(broken_);
}

// Returns false if the rest of the stream is of no use.
bool EtcdWatch::take(std::string_view bytes, const EtcdLink::Member& member) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (line_.size() > base::kEtcdLineMax) {
      broken_ = make_error(StatusCode::kCorrupt,
                           "watch '{}': a line of more than {} bytes; is it an etcd that answers "
                           "there",
                           prefix_, base::kEtcdLineMax);
      return false;
    }
    if (end == std::string_view::npos) return true;
    broken_ = take_line(line_);
    if (!broken_.ok()) return false;
    link_.has_answered(member);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  return true;
}

Status EtcdWatch::take_line(std::string_view line) {
  FFDL_ASSIGN_OR_RETURN(const etcd::Watched watched, etcd::read_watched(line));
  // Changes that etcd has forgotten count as one change: a waiting thread reads again.
  note(std::max(watched.newest, watched.compacted));
  if (!watched.is_over) return {};
  link_.forget_token();  // perhaps it is over because etcd knows the user's token no longer
  return make_error(StatusCode::kPeerLost, "watch '{}': etcd ended it: {}", prefix_, watched.why);
}

void EtcdWatch::note(Revision newest) {
  std::set<std::shared_ptr<Event>> waiters;
  {
    MutexLock lock(mutex_);
    if (newest <= newest_) return;
    newest_ = newest;
    waiters = waiters_;
  }
  for (const auto& waiter : waiters) waiter->set();
}

}  // namespace ffdl::store
