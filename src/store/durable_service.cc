#include "store/durable_service.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/challenge.h"
#include "store/files.h"
#include "store/server_folder.h"

namespace ffdl::store {
namespace {

// What the log remembers of the secret: that it is the same one.
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
          return base::make_error(StatusCode::kCorrupt,
                                  "read a store's log: a record is none; was it written by a newer "
                                  "version of ffdl");
        }
        return service.apply(record, runtime.now()).status();
      }));
  if (log.cut() > 0) {
    base::log_warning(
        "read the store in '{}': the last {} bytes of its log are no whole record, and were cut "
        "off; nobody was told that it is in",
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

Status DurableService::begin(const Options& options) {
  if (service_.store() == 0) {
    wire::Record created;
    const uint64_t store = runtime_.random() | 1;
    created.mutable_created()->set_store(store);
    created.mutable_created()->set_verifier(verifier_of(options.secret, store));
    FFDL_RETURN_IF_ERROR(commit(created).status());
  } else if (!net::same_mac(service_.verifier(), verifier_of(options.secret, service_.store()))) {
    return base::invalid_argument(
        "serve the store in '{}': it was made with another secret; pass the job's secret",
        options.folder);
  }
  if (service_.last_host() != 0) {
    for (const LeaseId lease : service_.leases_of(service_.last_host())) {
      FFDL_RETURN_IF_ERROR(commit(lease_over(lease)).status());
    }
  }
  FFDL_ASSIGN_OR_RETURN(const std::string boot, read_file("/proc/sys/kernel/random/boot_id"));
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
    base::log_warning("write the store's log anew: {}", replaced.to_string());
  }
  compact_at_ =
      std::max(log_.bytes() * base::kStoreLogFactor, base::kStoreLogGrowth + log_.bytes());
}

}  // namespace ffdl::store
