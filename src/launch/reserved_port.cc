#include "launch/reserved_port.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/errors.h"
#include "base/resource_limit.h"

namespace ffdl::launch {

Result<ReservedPort> ReservedPort::at(const std::string& host, std::string_view advice) {
  const std::string doing = fmt::format("find a free port at '{}'", host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "0", &hints, &found) != 0) {
    return base::invalid_argument("{}: it is not an IP address", doing);
  }
  base::OwnFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const int reuse = 1;
  const bool is_bound =
      socket.get() >= 0 &&
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
      ::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  if (!is_bound) return base::system_failure(doing, error, advice);
  const uint16_t port = own.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(own).sin_port;
  return ReservedPort(std::move(socket), {host, ntohs(port)});
}

}  // namespace ffdl::launch
