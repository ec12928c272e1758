#pragma once

#include <fcntl.h>

#include "base/fork_private_fd.h"
#include "net/asio.h"

namespace ffdl::net {

// Keeps the descriptor of a socket from programs and children that this process starts. One of them
// would hold a connection open after its owner's death. The result is not valid if there are too
// many; then the socket is closed. The owner of the result releases it before the socket is closed.
template <class Socket>
base::ForkPrivateFd keep_private(Socket& socket) {
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  base::ForkPrivateFd kept(socket.native_handle());
  asio::error_code ignored;
  // The table has closed the descriptor: asio must not do it again.
  if (!kept.valid()) static_cast<void>(socket.release(ignored));
  return kept;
}

}  // namespace ffdl::net
