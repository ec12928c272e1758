#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_private_fd.h"
#include "net/address.h"
#include "net/asio.h"
#include "net/frame.h"
#include "net/loop.h"

namespace ffdl::net {

// A TCP connection that carries frames. A child made by fork() has no copy of it. So the other side
// sees the death of this process at once, whichever children live on.
// It is shared between its owner and the operations that the kernel has not ended yet.
// Threads: the loop's.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Events {
    std::function<void()> on_open;                         // of connect() only
    std::function<void(std::string_view frame)> on_frame;  // valid during the call
    std::function<void(const Status& why)> on_closed;      // not after close()
  };

  // Connects to one of the endpoints of an address; events begin after the call. Tries all
  // endpoints in order until one accepts. Each but the last has its share of kStoreHandshakeMax.
  static std::shared_ptr<Connection> connect(Loop& loop, const Address& address, Events events);
  // Connects to one of the known `endpoints`; `address` names them in messages.
  static std::shared_ptr<Connection> connect(Loop& loop, const Address& address,
                                             std::vector<asio::ip::tcp::endpoint> endpoints,
                                             Events events);
  // Takes an accepted socket. `total` is the sum of unsent() over its connections; it lives as long
  // as any of them.
  static std::shared_ptr<Connection> accepted(asio::ip::tcp::socket socket, Events events,
                                              std::shared_ptr<size_t> total = nullptr);
  Connection(asio::ip::tcp::socket socket, Events events, std::shared_ptr<size_t> total = nullptr);
  ~Connection() { close(); }

  void set_frame_max(size_t bytes) { frames_.set_frame_max(bytes); }
  // Queues a message. A peer that does not read loses the connection when base::kUnsentMax bytes
  // wait. After that no further frame from it is reported, and nothing more is stored for it.
  void send(std::string_view message);
  // Returns the bytes that the kernel has not taken yet.
  size_t unsent() const { return closed_ || failing_ ? 0 : writing_.size() + next_.size(); }
  // Ends the connection after this turn of the loop; `on_closed` reports `why`.
  void fail_soon(Status why);
  // Closes the connection. Sent data is tried once more; no event comes afterwards.
  void close();
  // Returns host:port after connect(), and the host alone after accepted(): a client's port means
  // nothing.
  const std::string& peer() const { return peer_; }

 private:
  void try_next(const asio::error_code& failed);
  void give_up(uint64_t attempt);
  // Returns false if there are too many descriptors.
  bool keep();
  void read();
  void take(std::string_view bytes);
  void write();
  void count_unsent();
  void fail(const Status& why);
  Status failure(std::string_view doing, const asio::error_code& error) const;
  Status too_many() const;  // descriptors that children must not have

  asio::ip::tcp::socket socket_;
  asio::steady_timer attempt_end_;
  std::vector<asio::ip::tcp::endpoint> endpoints_;  // of connect()
  uint64_t attempts_ = 0;                           // the number of those begun
  base::ForkPrivateFd kept_;
  Events events_;
  std::string peer_;
  FrameReader frames_;
  std::string read_buffer_;
  std::string writing_;  // the kernel is reading it
  std::string next_;
  std::shared_ptr<size_t> total_;
  size_t counted_ = 0;    // the part of unsent() in the total
  bool failing_ = false;  // closed after this turn of the loop
  bool closed_ = false;
};

}  // namespace ffdl::net
