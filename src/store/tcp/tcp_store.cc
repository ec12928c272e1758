#include "store/tcp/tcp_store.h"

#include "base/errors.h"
#include "base/limits.h"
#include "net/local_address.h"
#include "store/failures.h"

namespace ffdl::store {
namespace {

Entry entry_of(const wire::Entry& entry) {
  return {entry.key(), entry.value(), entry.revision(), entry.lease()};
}

// Reports an answer that no server of ffdl sends, before the job acts on it.
Status odd_answer(std::string_view doing, std::string_view which, std::string_view observed) {
  return base::make_error(StatusCode::kInternal,
                          "{} '{}': the server sent {}; is it a store of the same version of ffdl",
                          doing, which, observed);
}

wire::Request put_request(std::string_view key, std::string_view value, LeaseId lease) {
  wire::Request request;
  wire::Put& put = *request.mutable_put();
  put.set_key(std::string(key));
  put.set_value(std::string(value));
  put.set_lease(lease);
  return request;
}

}  // namespace

Result<std::unique_ptr<Store>> TcpStore::open(std::string_view place, Runtime& runtime,
                                              const StoreOptions& options) {
  TcpLink::Options link_options;
  link_options.secret = options.secret;
  link_options.operation_timeout = options.operation_timeout;
  if (place.starts_with('/')) {
    link_options.folder = place;
  } else {
    FFDL_ASSIGN_OR_RETURN(link_options.address, net::parse_address(place));
  }
  FFDL_ASSIGN_OR_RETURN(auto link, TcpLink::open(link_options, runtime));
  const auto& server = link_options.address;
  return std::unique_ptr<Store>(new TcpStore(std::move(link), options.leases_outlive_connection,
                                             server ? net::address_towards(*server) : ""));
}

Result<uint64_t> TcpStore::number(wire::Request request, std::string_view what) {
  FFDL_ASSIGN_OR_RETURN(const wire::Reply reply, link_->call(std::move(request), what));
  return reply.number();
}

Result<Entry> TcpStore::get(std::string_view key) {
  wire::Request request;
  request.mutable_get()->set_key(std::string(key));
  FFDL_ASSIGN_OR_RETURN(const wire::Reply reply, link_->call(std::move(request), name("get", key)));
  if (reply.entries_size() != 1) {
    return odd_answer("get", key, fmt::format("{} entries", reply.entries_size()));
  }
  if (reply.entries(0).key() != key) return odd_answer("get", key, "the entry of another key");
  return entry_of(reply.entries(0));
}

Result<std::vector<Entry>> TcpStore::list(std::string_view prefix) {
  wire::Request request;
  request.mutable_list()->set_prefix(std::string(prefix));
  FFDL_ASSIGN_OR_RETURN(const wire::Reply reply,
                        link_->call(std::move(request), name("list", prefix)));
  std::vector<Entry> entries;
  for (const wire::Entry& entry : reply.entries()) {
    if (!entry.key().starts_with(prefix)) {
      return odd_answer("list", prefix, "a key with another prefix");
    }
    entries.push_back(entry_of(entry));
  }
  return entries;
}

Result<Revision> TcpStore::put(std::string_view key, std::string_view value, LeaseId lease) {
  FFDL_RETURN_IF_ERROR(State::check_entry(key, value));
  return number(put_request(key, value, lease), name("put", key));
}

Result<Revision> TcpStore::compare_and_put(std::string_view key, Revision expected,
                                           std::string_view value, LeaseId lease) {
  FFDL_RETURN_IF_ERROR(State::check_entry(key, value));
  wire::Request request = put_request(key, value, lease);
  request.mutable_put()->set_expected(expected);
  return number(std::move(request), name("put", key));
}

Status TcpStore::remove(std::string_view key) {
  wire::Request request;
  request.mutable_remove()->set_key(std::string(key));
  return number(std::move(request), name("remove", key)).status();
}

Result<Revision> TcpStore::wait_change(std::string_view prefix, Revision after, Time deadline) {
  wire::Request request;
  request.mutable_wait_change()->set_prefix(std::string(prefix));
  request.mutable_wait_change()->set_after(after);
  const std::string what = name("wait for a change of", prefix);
  const auto reply = link_->call(std::move(request), what, deadline);
  if (reply.ok() && reply->number() == 0) {
    return odd_answer("wait for a change of", prefix, "revision 0");
  }
  if (reply.ok()) return reply->number();
  if (reply.status().code() == StatusCode::kTimeout && reply.status().message().empty()) {
    return no_change(prefix, after);
  }
  return Status(reply.status());
}

Result<LeaseId> TcpStore::grant_lease(Duration ttl) {
  wire::Request request;
  request.mutable_grant_lease()->set_ttl_ns(ttl.count());
  request.mutable_grant_lease()->set_outlives_connection(leases_outlive_connection_);
  return number(std::move(request), "grant a lease");
}

Status TcpStore::keep_alive(LeaseId lease) {
  wire::Request request;
  request.mutable_keep_alive()->set_lease(lease);
  return number(std::move(request), name("keep alive", lease)).status();
}

Status TcpStore::end_lease(LeaseId lease) {
  wire::Request request;
  request.mutable_end_lease()->set_lease(lease);
  return number(std::move(request), name("end", lease)).status();
}

}  // namespace ffdl::store
