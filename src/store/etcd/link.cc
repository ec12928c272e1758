#include "store/etcd/link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/etcd/messages.h"

namespace ffdl::store {

using base::make_error;
using base::MutexLock;

namespace {

constexpr Duration kEarly = std::chrono::milliseconds(1);  // a socket may time out so early

}  // namespace

EtcdLink::EtcdLink(Options options, Runtime& runtime)
    : options_(std::move(options)),
      runtime_(runtime),
      process_(::getpid()),
      current_(runtime.random() % options_.endpoints.size()) {}  // so that clients spread

std::string EtcdLink::url() const {
  std::string text = "etcd://" + (options_.user.empty() ? "" : options_.user + "@");
  for (const net::Address& endpoint : options_.endpoints) {
    if (!text.ends_with('/') && !text.ends_with('@')) text += ',';
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
  // A repeatable call does not spend all of its time on one member that hangs.
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
    if (last.ok() || !is_over) last = outcome.status;  // a time that is over explains nothing
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
  if (Status authorized = authorize(*connection, deadline); !authorized.ok()) {
    const bool is_refused = authorized.code() == StatusCode::kInvalidArgument;
    if (authorized.code() == StatusCode::kUnavailable) is_away(began);
    return {is_refused ? Effect::kSettled : Effect::kNone,
            std::move(authorized).with_context(call.what)};
  }
  const auto answer = connection->ask(call.path, call.body, deadline);
  if (!answer.ok()) {
    switch (answer.status().code()) {
      case StatusCode::kUnavailable:
        is_away(began);
        return {Effect::kNone, answer.status()};
      case StatusCode::kExhausted:  // an answer to a change is never long
        if (!call.changes)
          return {Effect::kSettled, Status(answer.status()).with_context(call.what)};
        [[fallthrough]];
      default:
        return {Effect::kUnknown, answer.status()};
    }
  }
  has_answered(member);
  if (answer->status != 200 && !options_.user.empty() && etcd::is_without_token(answer->body)) {
    forget_token();
    return {Effect::kNone, etcd::read_failure(answer->body, call.what)};
  }
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

Status EtcdLink::authorize(EtcdHttp& connection, Time deadline) {
  if (options_.user.empty()) return {};
  std::string token;
  {
    MutexLock lock(mutex_);
    token = token_;
  }
  if (token.empty()) {
    const std::string what = "authenticate as user '" + options_.user + "'";
    FFDL_ASSIGN_OR_RETURN(
        const EtcdHttp::Answer answer,
        connection.ask("/v3/auth/authenticate",
                       etcd::authenticate_request(options_.user, options_.password), deadline));
    if (answer.status != 200) {
      const Status refused = etcd::read_failure(answer.body, what);
      if (answer.body.find("authentication is not enabled") != std::string::npos) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: this etcd has no users; enable them, or leave USER@ out", what);
      }
      if (refused.code() != StatusCode::kInvalidArgument) return refused;
      return make_error(StatusCode::kInvalidArgument,
                        "{}: etcd refuses; check the user and the store's secret, its password",
                        what);
    }
    FFDL_ASSIGN_OR_RETURN(token, etcd::read_token(answer.body));
    MutexLock lock(mutex_);
    token_ = token;
  }
  connection.set_token(std::move(token));
  return {};
}

void EtcdLink::forget_token() {
  MutexLock lock(mutex_);
  token_.clear();
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
  // Other threads may have moved on already.
  if (current_ == member.index) current_ = (member.index + 1) % options_.endpoints.size();
}

void EtcdLink::is_away(Time began) {
  MutexLock lock(mutex_);
  // A member has answered since an older attempt, which then means nothing.
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
  return std::make_unique<EtcdHttp>(member.address, runtime_, options_.certificates);
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
