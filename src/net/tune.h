#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

#include "base/limits.h"

namespace ffdl::net {

// The number of TCP_RTO_MAX_MS, which headers before Linux 6.15 lack.
inline constexpr int kTcpRtoMaxMs = 44;

// Sends small messages at once, and detects a machine that is gone or cut off. A machine that was
// cut off is heard within a second of its return. By itself the kernel would wait about as long as
// the cut before it sends again. Kernels before 6.15 still do.
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
  set(IPPROTO_TCP, kTcpRtoMaxMs, 1000);
  set(SOL_SOCKET, SO_KEEPALIVE, kOn);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSilent - kProbes);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace ffdl::net
