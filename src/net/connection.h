#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fork_private_fd.h"
#include "net/address.h"
#include "net/asio.h"
#include "net/frame.h"
#include "net/loop.h"

namespace ffdl::net {

// A TCP connection that carries frames. A child made by fork() has no copy of it: the other side
// sees the death of this process at once, whoever lives on.
// Shared between its owner and the operations that the kernel has not ended yet.
// Threads: the loop's.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Events {
    std::function<void()> on_open;                         // of connect() only
    std::function<void(std::string_view frame)> on_frame;  // it is valid during the call
    std::function<void(const Status& why)> on_closed;      // not after close()
  };

  // Events begin after the call.
  static std::shared_ptr<Connection> connect(Loop& loop, const Address& address, Events events);
  static std::shared_ptr<Connection> accepted(asio::ip::tcp::socket socket, Events events);
  Connection(asio::ip::tcp::socket socket, Events events);
  ~Connection() { close(); }

  void set_frame_max(size_t bytes) { frames_.set_frame_max(bytes); }
  // Who does not read loses the connection when base::kUnsentMax bytes wait.
  void send(std::string_view message);
  // What was sent is tried once more; no event comes afterwards.
  void close();
  const std::string& peer() const { return peer_; }

 private:
  // False when there are too many descriptors.
  bool keep();
  void read();
  void take(std::string_view bytes);
  void write();
  void fail(const Status& why);
  Status failure(std::string_view doing, const asio::error_code& error) const;

  asio::ip::tcp::socket socket_;
  base::ForkPrivateFd kept_;
  Events events_;
  std::string peer_;
  FrameReader frames_;
  std::string read_buffer_;
  std::string writing_;  // the kernel is reading it
  std::string next_;
  bool closed_ = false;
};

}  // namespace ffdl::net
