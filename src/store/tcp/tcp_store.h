#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/store.h"
#include "store/tcp/link.h"

namespace ffdl::store {

// A store in a server: each method is one request.
class TcpStore final : public Store {
 public:
  // `place` is host:port, or the absolute path of a folder.
  static Result<std::unique_ptr<Store>> open(std::string_view place, Runtime& runtime,
                                             const StoreOptions& options);

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
  TcpStore(std::unique_ptr<TcpLink> link, bool leases_outlive_connection, std::string local_address)
      : link_(std::move(link)),
        leases_outlive_connection_(leases_outlive_connection),
        local_address_(std::move(local_address)) {}

  Result<uint64_t> number(wire::Request request, std::string_view what);

  const std::unique_ptr<TcpLink> link_;
  const bool leases_outlive_connection_;
  const std::string local_address_;
};

}  // namespace ffdl::store
