#include "store/etcd_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/etcd_messages.h"

namespace ffdl::store {

using base::make_error;
using base::MutexLock;

namespace {

constexpr Duration kEarly = std::chrono::milliseconds(1);  // that a socket may find its time over

}  // namespace

EtcdLink::EtcdLink(Options options, Runtime& runtime)
    : options_(std::move(options)),
      runtime_(runtime),
      process_(::getpid()),
      current_(runtime.random() % options_.endpoints.size()) {}  // so that clients spread

std::string EtcdLink::url() const {
  std::string text = "etcd://";
  for (const net::Address& endpoint : options_.endpoints) {
    if (!text.ends_with('/')) text += ',';
    text += endpoint.text();
  }
  return text;
}

Status EtcdLink::call(const Call& call, const Read& read) {
  if (::getpid() != process_) {
    return make_error(StatusCode::kCancelled,
                      "{}: this process is a fork of the one that opened the store; open it in the "
                      "child",
                      call.what);
  }
  const Time deadline = runtime_.now() + options_.operation_timeout;
  // What can be repeated is not left to one member that hangs.
  const auto share = static_cast<int64_t>(call.changes ? 1 : options_.endpoints.size());
  Duration backoff{};
  Status last;
  for (size_t attempts = 1;; ++attempts) {
    const Member member = this->member();
    const Outcome outcome =
        attempt(member, call, read,
                std::min(deadline, runtime_.now() + options_.operation_timeout / share));
    if (outcome.effect == Effect::kSettled) return outcome.status;
    has_failed(member);
    if (outcome.effect == Effect::kUnknown && call.changes) {
      return make_error(StatusCode::kTimeout,
                        "{}: whether the call took effect is unknown; read again and decide: {}",
                        call.what, outcome.status.message());
    }
    const bool is_over = runtime_.now() + kEarly >= deadline;
    if (last.ok() || !is_over) last = outcome.status;  // the end of the time explains nothing
    if (is_over) {
      return make_error(
          StatusCode::kUnavailable, "{}: the store '{}' did not answer for {} ms: {}", call.what,
          url(),
          std::chrono::duration_cast<std::chrono::milliseconds>(options_.operation_timeout).count(),
          last.message());
    }
    if (attempts % options_.endpoints.size() != 0) continue;
    backoff = std::clamp<Duration>(2 * backoff, base::kStoreRetryMin, base::kStoreRetryMax);
    runtime_.make_event()->wait_until(std::min(deadline, runtime_.now() + backoff));
  }
}

EtcdLink::Outcome EtcdLink::attempt(const Member& member, const Call& call, const Read& read,
                                    Time deadline) {
  const Time began = runtime_.now();
  auto connection = connection_to(member);
  const auto answer = connection->ask(call.path, call.body, deadline);
  if (!answer.ok()) {
    switch (answer.status().code()) {
      case StatusCode::kUnavailable:
        is_away(began);
        return {Effect::kNone, answer.status()};
      case StatusCode::kExhausted:  // but an answer to a change is never long
        if (!call.changes)
          return {Effect::kSettled, Status(answer.status()).with_context(call.what)};
        [[fallthrough]];
      default:
        return {Effect::kUnknown, answer.status()};
    }
  }
  has_answered(member);
  Status status =
      answer->status == 200 ? read(answer->body) : etcd::read_failure(answer->body, call.what);
  const StatusCode doubtful =
      answer->status == 200 ? StatusCode::kCorrupt : StatusCode::kUnavailable;
  if (status.code() == doubtful) {
    return {Effect::kUnknown, std::move(status).with_context("'" + member.address.text() + "'")};
  }
  keep(member, std::move(connection));
  return {Effect::kSettled, std::move(status)};
}

EtcdLink::Member EtcdLink::member() {
  MutexLock lock(mutex_);
  return {current_, options_.endpoints[current_]};
}

void EtcdLink::has_answered(const Member& member) {
  bool was_away = false;
  {
    MutexLock lock(mutex_);
    answered_ = runtime_.now();
    was_away = std::exchange(away_, false);
  }
  if (was_away) base::log_info("store '{}' is at {} again", url(), member.address.text());
}

void EtcdLink::has_failed(const Member& member) {
  MutexLock lock(mutex_);
  // Others may have gone on already.
  if (current_ == member.index) current_ = (member.index + 1) % options_.endpoints.size();
}

void EtcdLink::is_away(Time began) {
  MutexLock lock(mutex_);
  // One answered since: this is the end of an old story.
  if (answered_ != Time::min() && began > answered_) away_ = true;
}

std::unique_ptr<EtcdHttp> EtcdLink::connection_to(const Member& member) {
  {
    MutexLock lock(mutex_);
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                    [&](const Idle& idle) { return idle.index == member.index; });
    if (found != idle_.rend()) {
      auto connection = std::move(found->connection);
      idle_.erase(std::next(found).base());
      return connection;
    }
  }
  return std::make_unique<EtcdHttp>(member.address, runtime_);
}

void EtcdLink::keep(const Member& member, std::unique_ptr<EtcdHttp> connection) {
  Idle oldest{};
  MutexLock lock(mutex_);
  idle_.push_back({member.index, std::move(connection)});
  if (idle_.size() <= base::kEtcdIdleMax) return;
  oldest = std::move(idle_.front());
  idle_.erase(idle_.begin());
}

}  // namespace ffdl::store
