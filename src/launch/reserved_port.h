#pragma once

#include <string>
#include <string_view>

#include "base/own_files.h"
#include "ffdl/export.h"
#include "net/address.h"

namespace ffdl::launch {

// A TCP port of this host for a server that is started later. Until this ends, the kernel chooses
// the port for no connection, and for no other server at the same address. The server must listen
// with SO_REUSEADDR, as etcd, PyTorch and gloo do. Started processes do not inherit the
// reservation.
class FFDL_API ReservedPort {
 public:
  // Reserves a free port at `host`, an IP address. `advice` completes the message of a failure:
  // "give --master-port".
  // Errors: kInvalidArgument (`host` is no IP address), kUnavailable (not an address of this host,
  // or no port is free), kExhausted (no descriptor is left).
  static Result<ReservedPort> at(const std::string& host, std::string_view advice);

  const net::Address& address() const { return address_; }

 private:
  ReservedPort(base::OwnFd socket, net::Address address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  base::OwnFd socket_;  // bound, and never listening
  net::Address address_;
};

}  // namespace ffdl::launch
