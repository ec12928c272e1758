#pragma once

#include <functional>
#include <memory>

#include "base/fork_private_fd.h"
#include "net/address.h"
#include "net/asio.h"
#include "net/loop.h"

namespace ffdl::net {

// Accepts connections on one port. It is shared between its owner and the operation that the kernel
// has not ended yet.
// Threads: open() before the loop has any work of it, the rest on the loop's.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using OnAccept = std::function<void(asio::ip::tcp::socket)>;

  // Opens the port. Connections from then on wait for start().
  // Errors: kInvalidArgument (no such address here), kUnavailable (the port is in use).
  static Result<std::shared_ptr<Listener>> open(Loop& loop, const Address& address);
  explicit Listener(Loop& loop) : acceptor_(loop.context()), retry_(loop) {}
  ~Listener() { close(); }

  void start(OnAccept on_accept);
  void close();
  // Returns the address with the actual port.
  const Address& address() const { return address_; }

 private:
  Status bind(const asio::ip::tcp::endpoint& endpoint);
  void accept();
  void report(const asio::error_code& error);

  asio::ip::tcp::acceptor acceptor_;
  Timer retry_;
  base::ForkPrivateFd kept_;
  OnAccept on_accept_;
  Address address_;
  bool has_failed_ = false;  // since a connection was accepted last
};

}  // namespace ffdl::net
