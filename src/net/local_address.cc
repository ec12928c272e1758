#include "net/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/errors.h"
#include "base/own_files.h"
#include "net/asio.h"

namespace ffdl::net {
namespace {

struct OwnAddress {
  std::string interface;
  asio::ip::address address;
};

std::optional<asio::ip::address> address_of(const sockaddr& place) {
  if (place.sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(place);
    return asio::ip::address_v4(ntohl(four.sin_addr.s_addr));
  }
  if (place.sa_family != AF_INET6) return std::nullopt;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(place);
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(std::begin(six.sin6_addr.s6_addr), bytes.size(), bytes.begin());
  return asio::ip::address_v6(bytes);
}

std::vector<OwnAddress> own_addresses() {
  std::vector<OwnAddress> all;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return all;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const auto address = address_of(*one->ifa_addr);
    if (address) all.push_back({one->ifa_name, *address});
  }
  ::freeifaddrs(first);
  return all;
}

bool is_link_local(const asio::ip::address& address) {
  if (address.is_v6()) return address.to_v6().is_link_local();
  return (address.to_v4().to_uint() & 0xffff0000U) == 0xa9fe0000U;  // 169.254.0.0/16
}

bool is_in(const asio::ip::address& address, const std::string& network) {
  asio::error_code wrong;
  if (address.is_v4()) {
    const auto four = asio::ip::make_network_v4(network, wrong);
    return !wrong && four.canonical() ==
                         asio::ip::network_v4(address.to_v4(), four.prefix_length()).canonical();
  }
  const auto six = asio::ip::make_network_v6(network, wrong);
  return !wrong &&
         six.canonical() == asio::ip::network_v6(address.to_v6(), six.prefix_length()).canonical();
}

}  // namespace

std::string address_towards(const Address& server) {
  if (server.is_loopback()) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  const std::string port = std::to_string(server.port);
  if (::getaddrinfo(server.host.c_str(), port.c_str(), &hints, &first) != 0) return {};
  std::string found;
  for (const addrinfo* one = first; one != nullptr && found.empty(); one = one->ai_next) {
    const base::OwnFd socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t bytes = sizeof local;
    if (socket.get() < 0 || ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
      continue;
    }
    const auto address = address_of(reinterpret_cast<const sockaddr&>(local));
    if (address && !address->is_loopback()) found = address->to_string();
  }
  ::freeaddrinfo(first);
  return found;
}

Result<std::string> address_of_interface(std::string_view interface) {
  const std::string wanted(interface);
  const std::vector<OwnAddress> all = own_addresses();
  for (const bool four : {true, false}) {
    for (const OwnAddress& one : all) {
      if (one.address.is_v4() != four || is_link_local(one.address)) continue;
      if (one.interface == wanted || is_in(one.address, wanted)) return one.address.to_string();
    }
  }
  std::string listed;
  for (const OwnAddress& one : all) {
    listed +=
        fmt::format("{}{} {}", listed.empty() ? "" : ", ", one.interface, one.address.to_string());
  }
  return base::invalid_argument(
      "find the address of interface '{}': this host has {}; give the name of one of these, or a "
      "network such as 10.1.0.0/16",
      interface, listed.empty() ? "none" : listed);
}

std::vector<std::string> addresses_of_this_host() {
  std::vector<std::string> all;
  for (const OwnAddress& one : own_addresses()) {
    if (!is_link_local(one.address)) all.push_back(one.address.to_string());
  }
  return all;
}

bool is_this_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return false;
  const std::vector<OwnAddress> all = own_addresses();
  bool is_own = false;
  for (const addrinfo* one = first; one != nullptr && !is_own; one = one->ai_next) {
    const auto address = address_of(*one->ai_addr);
    is_own = address && (address->is_loopback() ||
                         std::any_of(all.begin(), all.end(), [&](const OwnAddress& own) {
                           return own.address == *address;
                         }));
  }
  ::freeaddrinfo(first);
  return is_own;
}

}  // namespace ffdl::net
