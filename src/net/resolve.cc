#include "net/resolve.h"

#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace ffdl::net {
namespace {

using asio::ip::tcp;

// Omits the flag that hides loopback addresses if a machine has no others.
constexpr auto kFlags = asio::ip::resolver_base::flags();

Endpoints endpoints_of(const tcp::resolver::results_type& found) {
  Endpoints endpoints;
  for (const auto& one : found) endpoints.push_back(one.endpoint());
  return endpoints;
}

// Returns the endpoint of a host that is a number, without a resolver.
Endpoints by_number(const Address& address) {
  asio::error_code error;
  const asio::ip::address number = asio::ip::make_address(address.host, error);
  return error ? Endpoints() : Endpoints{{number, address.port}};
}

}  // namespace

Endpoints resolve(asio::io_context& context, const Address& address, asio::error_code& error) {
  Endpoints found = by_number(address);
  if (!found.empty()) return found;
  tcp::resolver resolver(context);
  found = endpoints_of(resolver.resolve(address.host, std::to_string(address.port), kFlags, error));
  if (!error && found.empty()) error = asio::error::host_not_found;
  return found;
}

void resolve_async(asio::io_context& context, const Address& address, OnResolved done) {
  Endpoints number = by_number(address);
  if (!number.empty()) {
    asio::post(context, [done = std::move(done), number = std::move(number)] { done({}, number); });
    return;
  }
  // Shared with the operation, which needs it until it ends.
  const auto resolver = std::make_shared<tcp::resolver>(context);
  try {
    resolver->async_resolve(
        address.host, std::to_string(address.port), kFlags,
        [resolver, done](const asio::error_code& error, const tcp::resolver::results_type& found) {
          if (!error && found.empty()) return done(asio::error::host_not_found, {});
          done(error, endpoints_of(found));
        });
  } catch (const std::system_error& failure) {
    asio::post(context, [done = std::move(done), error = failure.code()] { done(error, {}); });
  }
}

Endpoints to_listen_on(const Address& address, Endpoints found) {
  if (address.is_loopback()) return found;
  std::erase_if(found, [](const tcp::endpoint& one) { return one.address().is_loopback(); });
  return found;
}

}  // namespace ffdl::net
