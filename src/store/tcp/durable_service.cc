#include "store/tcp/durable_service.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/challenge.h"
#include "store/local/files.h"
#include "store/tcp/folder_secret.h"
#include "store/tcp/server_folder.h"

namespace ffdl::store {
namespace {

// Returns what the log stores of the secret: it proves that a secret is the same.
std::string verifier_of(const std::string& secret, uint64_t store) {
  return net::mac_of(secret, {"store", std::to_string(store)});
}

wire::Record lease_over(LeaseId lease) {
  wire::Record record;
  record.set_lease_over(lease);
  return record;
}

}  // namespace

Result<std::unique_ptr<DurableService>> DurableService::open(const Options& options,
                                                             Runtime& runtime) {
  FFDL_ASSIGN_OR_RETURN(base::ForkPrivateFd lock, lock_server_folder(options.folder));
  Service service;
  FFDL_ASSIGN_OR_RETURN(
      LogFile log, LogFile::open(log_in(options.folder), [&](std::string_view bytes) -> Status {
        wire::Record record;
        if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
          return base::make_error(
              StatusCode::kCorrupt,
              "read a store's log: a record cannot be parsed; was it written by a newer "
              "version of ffdl");
        }
        return service.apply(record, runtime.now()).status();
      }));
  if (log.cut() > 0) {
    base::log_warning(
        "read the store in '{}': the last {} bytes of its log are an incomplete record, and were "
        "cut off; no client was told of its success",
        options.folder, log.cut());
  }
  Opened opened{std::move(lock), std::move(log), std::move(service)};
  auto made = std::unique_ptr<DurableService>(new DurableService(std::move(opened), runtime));
  FFDL_RETURN_IF_ERROR(made->begin(options));
  return made;
}

DurableService::DurableService(Opened opened, Runtime& runtime)
    : runtime_(runtime),
      lock_(std::move(opened.lock)),
      log_(std::move(opened.log)),
      service_(std::move(opened.service)) {}

Result<std::string> DurableService::choose_secret(const Options& options) {
  if (!options.secret.empty()) return options.secret;
  const bool has_had_none = service_.store() == 0 || was_made_with("");
  if (options.makes_secret && has_had_none) return make_folder_secret(options.folder);
  return read_folder_secret(options.folder);
}

bool DurableService::was_made_with(const std::string& secret) const {
  return net::same_mac(service_.verifier(), verifier_of(secret, service_.store()));
}

Status DurableService::create(uint64_t store) {
  wire::Record created;
  created.mutable_created()->set_store(store);
  created.mutable_created()->set_verifier(verifier_of(secret_, store));
  return commit(created).status();
}

Status DurableService::begin(const Options& options) {
  FFDL_ASSIGN_OR_RETURN(secret_, choose_secret(options));
  if (service_.store() == 0) {
    FFDL_RETURN_IF_ERROR(create(runtime_.random() | 1));
  } else if (options.secret.empty() && was_made_with("")) {
    // The store may have got its secret just now, or before a server died between file and record.
    if (!secret_.empty()) FFDL_RETURN_IF_ERROR(create(service_.store()));
  } else if (!was_made_with(secret_)) {
    return base::invalid_argument(
        "serve the store in '{}': it was made with another secret; pass the job's secret",
        options.folder);
  }
  if (service_.last_host() != 0) {
    for (const LeaseId lease : service_.leases_of(service_.last_host())) {
      FFDL_RETURN_IF_ERROR(commit(lease_over(lease)).status());
    }
  }
  FFDL_ASSIGN_OR_RETURN(const std::string boot, read_boot_id());
  wire::Record serving;
  serving.mutable_serving()->set_boot(boot);
  serving.mutable_serving()->set_host(options.host);
  FFDL_RETURN_IF_ERROR(commit(serving).status());
  service_.extend_leases(runtime_.now());
  return {};
}

Result<wire::Reply> DurableService::commit(const wire::Record& record) {
  FFDL_RETURN_IF_ERROR(log_.append(record.SerializeAsString()));
  auto reply = service_.apply(record, runtime_.now());
  compact_if_large();
  return reply;
}

void DurableService::compact_if_large() {
  if (compact_at_ == 0) compact_at_ = base::kStoreLogGrowth;
  if (log_.bytes() < compact_at_) return;
  const Status replaced = log_.replace(service_.snapshot().SerializeAsString());
  if (!replaced.ok()) {
    base::log_warning("rewrite the store's log: {}", replaced.to_string());
  }
  compact_at_ =
      std::max(log_.bytes() * base::kStoreLogFactor, base::kStoreLogGrowth + log_.bytes());
}

}  // namespace ffdl::store
