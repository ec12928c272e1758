#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ffdl/runtime.h"
#include "net/address.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/loop.h"
#include "store/durable_service.h"

namespace ffdl::store {

// Which protocol is spoken: both sides must have the same.
inline constexpr uint32_t kProtocolVersion = 1;

struct ServerOptions {
  std::string folder{};
  net::Address address{};
  std::string secret{};
  bool other_port = false;  // take any free one when the port of `address` is in use
  uint64_t host = 0;        // the client that has this server inside; 0: none
};

// Serves the store in a folder to clients over TCP, on a thread of its own.
// Errors: see StoreServer.
class Server {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Runtime& runtime);
  ~Server();
  const net::Address& address() const { return listener_->address(); }

 private:
  struct Wait {
    std::string prefix;
    Revision after = 0;  // no change of the prefix since then
  };
  enum class Stage { kHello, kProof, kReady, kRefused };
  struct Peer {
    explicit Peer(net::Loop& loop) : patience(loop) {}
    std::shared_ptr<net::Connection> connection;
    Stage stage = Stage::kHello;
    net::Timer patience;  // until it is ready
    std::string its_nonce;
    std::string our_nonce;
    uint64_t client = 0;
    std::map<uint64_t, Wait> waits;  // by sequence
  };

  Server(ServerOptions options, Runtime& runtime, std::unique_ptr<DurableService> durable,
         std::unique_ptr<net::Loop> loop);
  Status listen();
  void accept(asio::ip::tcp::socket socket);
  void take(uint64_t id, std::string_view frame);
  void take_hello(Peer& peer, const wire::Hello& hello);
  void take_proof(Peer& peer, const wire::Proof& proof);
  void take_request(uint64_t id, Peer& peer, const wire::Request& request);
  void give_up_wait(Peer& peer, uint64_t sequence);
  void refuse(Peer& peer, const Status& why);
  void send(Peer& peer, const wire::FromServer& message);
  void drop(uint64_t id, const Status& why);
  void replace_older(const Peer& peer);
  void end_leases(const std::vector<LeaseId>& leases);
  void wake_waits();
  void watch_leases();
  void notice_standstill();
  void tell_refusal(const std::string& peer, const Status& why);

  const ServerOptions options_;
  Runtime& runtime_;
  std::unique_ptr<DurableService> durable_;
  Service& service_;
  std::unique_ptr<net::Loop> loop_;
  std::shared_ptr<net::Listener> listener_;
  std::map<uint64_t, Peer> peers_;
  uint64_t last_peer_ = 0;
  Revision woken_at_ = 0;     // nobody who waits waits for a change before it
  std::string last_refusal_;  // told once while it stays the same
  net::Timer lease_end_;
  net::Timer lease_grace_;
  bool in_grace_ = false;
  net::Timer tick_;
  std::optional<Time> tick_due_;  // none: there is no lease
};

}  // namespace ffdl::store
