#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

#include "base/limits.h"

namespace ffdl::net {

// Small messages leave at once, and a machine that is gone or cut off is noticed.
inline void tune(int fd) {
  using Seconds = std::chrono::seconds;
  constexpr int kSilent = std::chrono::duration_cast<Seconds>(base::kPeerSilentMax).count();
  constexpr int kSilentMs = kSilent * 1000;
  constexpr int kOn = 1;
  constexpr int kProbes = 3;
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);  // a socket without it works too
  };
  set(IPPROTO_TCP, TCP_NODELAY, kOn);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMs);
  set(SOL_SOCKET, SO_KEEPALIVE, kOn);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSilent - kProbes);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace ffdl::net
