#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "base/own_files.h"

namespace ffdl::testing {

// Returns the first of the ports that the kernel chooses from for connections.
inline int first_port_of_the_kernel() {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > 2048 ? first : 32'768;
}

// Takes a port for this process until it ends. Returns whether it was free. A socket with the
// port's number as its name holds it: a process of its own kind finds the name in use. The kernel
// takes the name away with the process, and keeps it apart in each network namespace, as it does
// with ports.
inline bool take_port(int port) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "ffdl-test-port-" + std::to_string(port);
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // after a zero: in no folder
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  base::OwnFd holder(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(holder.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) return false;
  const base::OwnFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  holder.release();  // until the process ends
  return true;
}

// Returns a port of the loopback that is this process's until it ends: no other test and no
// connection gets it, not even while the server at it is down.
inline int free_port() {
  const int end = first_port_of_the_kernel();
  std::random_device random;
  std::uniform_int_distribution<int> ports(end / 2, end - 1);
  while (true) {
    const int port = ports(random);
    if (take_port(port)) return port;
  }
}

}  // namespace ffdl::testing
