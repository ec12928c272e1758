#include "store/etcd/etcd_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/certificate_files.h"
#include "net/local_address.h"
#include "store/etcd/link.h"
#include "store/etcd/messages.h"
#include "store/etcd/watch.h"
#include "store/failures.h"
#include "store/local/state.h"

namespace ffdl::store {

using base::make_error;
using base::MutexLock;

namespace {

// Returns whether `key` can never have been put.
bool is_no_key(std::string_view key) { return key.empty() || key.size() > base::kStoreKeyMax; }

Status check_prefix(std::string_view prefix) {
  if (prefix.size() <= base::kStoreKeyMax) return {};
  return base::invalid_argument("list '{}': a prefix of {} bytes; the most is {}",
                                prefix.substr(0, 64), prefix.size(), base::kStoreKeyMax);
}

Revision newest_of(Revision answer) { return answer; }
Revision newest_of(const etcd::Range& answer) { return answer.newest; }
Revision newest_of(const etcd::Compared& answer) { return answer.newest; }

// Sends one request per method, except wait_change(), which reads the state of a watch.
class EtcdStore final : public Store {
 public:
  EtcdStore(const EtcdLink::Options& options, Runtime& runtime)
      : runtime_(runtime),
        link_(options, runtime),
        local_address_(net::address_towards(options.endpoints.front())) {}

  // Checks that this is an etcd, and one of a version that this client supports.
  Status check();

  Result<Entry> get(std::string_view key) override;
  Result<std::vector<Entry>> list(std::string_view prefix) override;
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override;
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override;
  Status remove(std::string_view key) override;
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override;
  Result<LeaseId> grant_lease(Duration ttl) override;
  Status keep_alive(LeaseId lease) override;
  Status end_lease(LeaseId lease) override;
  std::string local_address() const override { return local_address_; }

 private:
  template <class T>
  using Reader = Result<T> (*)(std::string_view);
  struct Watching {
    std::shared_ptr<EtcdWatch> watch;  // shared with waiting threads, which keep it alive
    uint64_t used = 0;                 // larger where it was used later
  };

  template <class T>
  Result<T> ask(const EtcdLink::Call& call, Reader<T> reader);
  // Asks for an answer that includes the store's newest revision.
  template <class T>
  Result<T> ask_newest(const EtcdLink::Call& call, Reader<T> reader);
  Status note(Revision before, Revision newest);
  Result<Revision> newest();
  // Returns null if there is none.
  std::shared_ptr<EtcdWatch> find_watch(std::string_view prefix);
  Result<std::shared_ptr<EtcdWatch>> make_watch(std::string_view prefix, Revision since);
  Result<bool> differs(std::string_view prefix, Revision after, Revision until);

  Runtime& runtime_;
  EtcdLink link_;
  const std::string local_address_;
  base::Mutex mutex_;
  Revision newest_ FFDL_GUARDED_BY(mutex_) = 0;  // that etcd has returned
  bool is_another_ FFDL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Watching, std::less<>> watches_ FFDL_GUARDED_BY(mutex_);
  uint64_t uses_ FFDL_GUARDED_BY(mutex_) = 0;
};

template <class T>
Result<T> EtcdStore::ask(const EtcdLink::Call& call, Reader<T> reader) {
  std::optional<T> answer;
  FFDL_RETURN_IF_ERROR(link_.call(call, [&](std::string_view body) -> Status {
    FFDL_ASSIGN_OR_RETURN(answer, reader(body));
    return {};
  }));
  return *std::move(answer);
}

template <class T>
Result<T> EtcdStore::ask_newest(const EtcdLink::Call& call, Reader<T> reader) {
  const Revision before = [&] {
    MutexLock lock(mutex_);
    return newest_;
  }();
  FFDL_ASSIGN_OR_RETURN(T answer, ask(call, reader));
  FFDL_RETURN_IF_ERROR(note(before, newest_of(answer)));
  return answer;
}

// Refuses a store whose revision is less than one that this client has seen. It was set up again,
// or from an old copy, and reuses those revisions for other changes.
Status EtcdStore::note(Revision before, Revision newest) {
  MutexLock lock(mutex_);
  is_another_ = is_another_ || newest < before;
  newest_ = std::max(newest_, newest);
  if (!is_another_) return {};
  return make_error(StatusCode::kUnavailable,
                    "ask the store '{}': it is at revision {}, and was at {}: it is another store "
                    "than before; were its data removed",
                    link_.url(), newest, before);
}

Status EtcdStore::check() {
  const auto version =
      ask({.path = "/version", .what = name("open store", link_.url())}, &etcd::read_version);
  FFDL_RETURN_IF_ERROR(version.status());
  if (std::pair(version->major, version->minor) < std::pair<uint64_t, uint64_t>(3, 4)) {
    return base::invalid_argument("open store '{}': its version is {}.{}; use etcd 3.4 or newer",
                                  link_.url(), version->major, version->minor);
  }
  return newest().status();
}

Result<Revision> EtcdStore::newest() {
  FFDL_ASSIGN_OR_RETURN(const etcd::Range range, ask_newest({.path = "/v3/kv/range",
                                                             .body = etcd::newest_request(),
                                                             .what = name("ask", link_.url())},
                                                            &etcd::read_range));
  return range.newest;
}

Result<Entry> EtcdStore::get(std::string_view key) {
  if (is_no_key(key)) return no_such_key(key.substr(0, 64));
  FFDL_ASSIGN_OR_RETURN(
      etcd::Range range,
      ask_newest({.path = "/v3/kv/range", .body = etcd::get_request(key), .what = name("get", key)},
                 &etcd::read_range));
  if (range.entries.empty()) return no_such_key(key);
  return std::move(range.entries.front());
}

Result<std::vector<Entry>> EtcdStore::list(std::string_view prefix) {
  FFDL_RETURN_IF_ERROR(check_prefix(prefix));
  FFDL_ASSIGN_OR_RETURN(etcd::Range range, ask_newest({.path = "/v3/kv/range",
                                                       .body = etcd::list_request(prefix),
                                                       .what = name("list", prefix)},
                                                      &etcd::read_range));
  return std::move(range.entries);
}

Result<Revision> EtcdStore::put(std::string_view key, std::string_view value, LeaseId lease) {
  FFDL_RETURN_IF_ERROR(State::check_entry(key, value));
  auto put = ask_newest({.path = "/v3/kv/put",
                         .body = etcd::put_request(key, value, lease),
                         .what = name("put", key),
                         .changes = true},
                        &etcd::read_change);
  if (put.status().code() == StatusCode::kNotFound) return lease_has_ended("put under", lease);
  return put;
}

Result<Revision> EtcdStore::compare_and_put(std::string_view key, Revision expected,
                                            std::string_view value, LeaseId lease) {
  FFDL_RETURN_IF_ERROR(State::check_entry(key, value));
  const auto compared =
      ask_newest({.path = "/v3/kv/txn",
                  .body = etcd::compare_and_put_request(key, expected, value, lease),
                  .what = name("put", key),
                  .changes = true},
                 &etcd::read_compared);
  if (compared.status().code() == StatusCode::kNotFound) {
    return lease_has_ended("put under", lease);
  }
  FFDL_RETURN_IF_ERROR(compared.status());
  if (!compared->is_done) return has_other_revision(key, expected, compared->present);
  return compared->newest;
}

Status EtcdStore::remove(std::string_view key) {
  if (is_no_key(key)) return {};
  return ask_newest({.path = "/v3/kv/deleterange",
                     .body = etcd::remove_request(key),
                     .what = name("remove", key),
                     .changes = true},
                    &etcd::read_change)
      .status();
}

// --- waiting -------------------------------------------------------------------------------------

Result<Revision> EtcdStore::wait_change(std::string_view prefix, Revision after, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_prefix(prefix));
  auto watch = find_watch(prefix);
  if (watch == nullptr || after == 0) {
    FFDL_ASSIGN_OR_RETURN(const Revision newest, this->newest());
    FFDL_ASSIGN_OR_RETURN(watch, make_watch(prefix, newest));
    if (after == 0) return newest;
  }
  const Revision since = watch->since();
  if (after < since) {
    FFDL_ASSIGN_OR_RETURN(const bool is_other, differs(prefix, after, since));
    if (is_other) return since;
  }
  const auto changed = watch->wait(std::max(after, since), deadline);
  if (!changed) return no_change(prefix, after);
  FFDL_RETURN_IF_ERROR(note(0, *changed));
  return *changed;
}

std::shared_ptr<EtcdWatch> EtcdStore::find_watch(std::string_view prefix) {
  MutexLock lock(mutex_);
  const auto found = watches_.find(prefix);
  if (found == watches_.end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.watch;
}

Result<std::shared_ptr<EtcdWatch>> EtcdStore::make_watch(std::string_view prefix, Revision since) {
  std::vector<std::shared_ptr<EtcdWatch>> ended;  // destroyed without the mutex
  MutexLock lock(mutex_);
  if (const auto found = watches_.find(prefix); found != watches_.end()) {
    return found->second.watch;
  }
  std::vector<decltype(watches_)::iterator> idle;
  for (auto at = watches_.begin(); at != watches_.end(); ++at) {
    if (at->second.watch.use_count() == 1) idle.push_back(at);
  }
  std::sort(idle.begin(), idle.end(),
            [](const auto& a, const auto& b) { return a->second.used < b->second.used; });
  const size_t kept = std::min(idle.size(), base::kEtcdIdleWatchesMax);
  for (size_t i = 0;
       i + kept < idle.size() || (i < idle.size() && watches_.size() >= base::kEtcdWatchesMax);
       ++i) {
    ended.push_back(std::move(idle[i]->second.watch));
    watches_.erase(idle[i]);
  }
  if (watches_.size() >= base::kEtcdWatchesMax) {
    return make_error(StatusCode::kExhausted,
                      "wait for a change of '{}': {} other prefixes are waited for, which is the "
                      "most; wait for fewer at once",
                      prefix, watches_.size());
  }
  auto watch = std::make_shared<EtcdWatch>(link_, runtime_, std::string(prefix), since);
  if (!watch->has_begun()) return base::no_thread("ffdl-watch");
  watches_.emplace(prefix, Watching{watch, ++uses_});
  return watch;
}

// Returns whether a list of the prefix at revision `until` differs from that at `after`. A key that
// came and went in between makes no difference.
Result<bool> EtcdStore::differs(std::string_view prefix, Revision after, Revision until) {
  if (until - after > base::kStoreChangesMax) return true;
  std::vector<Entry> lists[2];
  for (const Revision at : {after, until}) {
    auto range = ask<etcd::Range>({.path = "/v3/kv/range",
                                   .body = etcd::old_keys_request(prefix, at),
                                   .what = name("wait for a change of", prefix)},
                                  &etcd::read_range);
    if (range.status().code() == StatusCode::kNotFound) return true;  // etcd no longer knows
    FFDL_RETURN_IF_ERROR(range.status());
    lists[at == until ? 1 : 0] = std::move(range->entries);
  }
  return lists[0] != lists[1];
}

// --- leases --------------------------------------------------------------------------------------

Result<LeaseId> EtcdStore::grant_lease(Duration ttl) {
  FFDL_RETURN_IF_ERROR(check_ttl(ttl));
  // A lease whose grant is not received ends by itself, so this may be repeated.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(ttl).count();
  return ask({.path = "/v3/lease/grant",
              .body = etcd::grant_request(static_cast<uint64_t>(seconds)),
              .what = "grant a lease"},
             &etcd::read_granted);
}

Status EtcdStore::keep_alive(LeaseId lease) {
  const auto kept = ask({.path = "/v3/lease/keepalive",
                         .body = etcd::lease_request(lease),
                         .what = fmt::format("keep alive lease {}", lease)},
                        &etcd::read_kept);
  FFDL_RETURN_IF_ERROR(kept.status());
  return *kept ? Status() : lease_has_ended("keep alive", lease);
}

Status EtcdStore::end_lease(LeaseId lease) {
  const auto ended = ask({.path = "/v3/lease/revoke",
                          .body = etcd::lease_request(lease),
                          .what = fmt::format("end lease {}", lease)},
                         &etcd::read_change);
  return ended.status().code() == StatusCode::kNotFound ? Status() : ended.status();
}

// Takes the user from the begin of `places`. Empty: there is none.
Result<std::string> take_user(std::string_view& places, const StoreOptions& options) {
  const size_t at = places.substr(0, places.find('?')).rfind('@');
  if (at == places.npos) return std::string();
  const std::string_view user = places.substr(0, at);
  if (user.empty() || user.find(':') != user.npos) {
    return base::invalid_argument(
        "open store 'etcd://...@{}': the user's name is empty or has a ':'; write USER@HOST:PORT, "
        "and give the password as the store's secret",
        places.substr(at + 1));
  }
  if (options.secret.empty()) {
    return base::invalid_argument(
        "open store 'etcd://{}': user '{}' has no password; give it as the store's secret", places,
        user);
  }
  places = places.substr(at + 1);
  return std::string(user);
}

// Checks that a password crosses no network in plain text.
Status expect_privacy(const EtcdLink::Options& options) {
  if (options.user.empty() || !options.certificates.empty()) return {};
  for (const net::Address& endpoint : options.endpoints) {
    if (endpoint.is_loopback()) continue;
    return base::invalid_argument(
        "open store 'etcd://{}@{}': the password would cross the network in plain text; give "
        "?certificates=FOLDER, with {} of the etcd's authority",
        options.user, endpoint.text(), net::kAuthorityFile);
  }
  return {};
}

// Takes the folder of certificates from the end of `places`, and checks it. Empty: there is none.
Result<std::string> take_certificates(std::string_view& places, bool has_user) {
  constexpr std::string_view kOption = "certificates=";
  const size_t at = places.find('?');
  if (at == places.npos) return std::string();
  const std::string_view option = places.substr(at + 1);
  std::string folder(option.substr(std::min(option.size(), kOption.size())));
  if (!option.starts_with(kOption) || !folder.starts_with('/')) {
    return base::invalid_argument(
        "open store 'etcd://{}': '{}' is no option; use certificates=/absolute/folder", places,
        option);
  }
  for (const char* const name : {net::kAuthorityFile, net::kClientFile, net::kClientKeyFile}) {
    const std::string file = folder + "/" + name;
    const bool may_lack = has_user && name != std::string_view(net::kAuthorityFile);
    if (::access(file.c_str(), may_lack ? F_OK : R_OK) == 0 || (may_lack && errno == ENOENT)) {
      continue;
    }
    return base::invalid_argument(
        "open store 'etcd://{}': read '{}': {}; put {}, {} and {} into that folder, as PEM", places,
        file, base::errno_text(errno), net::kAuthorityFile, net::kClientFile, net::kClientKeyFile);
  }
  places = places.substr(0, at);
  return folder;
}

}  // namespace

Result<std::unique_ptr<Store>> open_etcd_store(std::string_view places, Runtime& runtime,
                                               const StoreOptions& options) {
  EtcdLink::Options link_options;
  link_options.operation_timeout = options.operation_timeout;
  FFDL_ASSIGN_OR_RETURN(link_options.user, take_user(places, options));
  const bool has_user = !link_options.user.empty();
  if (has_user) link_options.password = options.secret;
  FFDL_ASSIGN_OR_RETURN(link_options.certificates, take_certificates(places, has_user));
  for (std::string_view rest = places; !rest.empty();) {
    const size_t comma = rest.find(',');
    FFDL_ASSIGN_OR_RETURN(net::Address endpoint, net::parse_address(rest.substr(0, comma)));
    link_options.endpoints.push_back(std::move(endpoint));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  if (link_options.endpoints.empty() || link_options.endpoints.size() > base::kEtcdEndpointsMax) {
    return base::invalid_argument("open store 'etcd://{}': {} members; name 1 to {}", places,
                                  link_options.endpoints.size(), base::kEtcdEndpointsMax);
  }
  FFDL_RETURN_IF_ERROR(expect_privacy(link_options));
  auto store = std::make_unique<EtcdStore>(link_options, runtime);
  FFDL_RETURN_IF_ERROR(store->check());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace ffdl::store
