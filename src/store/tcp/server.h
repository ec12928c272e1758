#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ffdl/runtime.h"
#include "net/address.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/loop.h"
#include "store/tcp/durable_service.h"

namespace ffdl::store {

// The version of the protocol, which must be the same on both sides.
inline constexpr uint32_t kProtocolVersion = 2;

struct ServerOptions {
  std::string folder{};
  net::Address address{};
  std::string secret{};
  bool other_port = false;    // take any free one when the port of `address` is in use
  uint64_t host = 0;          // the client that contains this server; 0: none
  bool makes_secret = false;  // without a secret: a new store gets one of its own
};

// Serves the store in a folder to clients over TCP, on a thread of its own.
// Errors: see StoreServer.
class Server {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Runtime& runtime);
  ~Server();
  const net::Address& address() const { return listener_->address(); }
  const std::string& secret() const { return durable_->secret(); }

 private:
  struct Wait {
    std::string prefix;
    Revision after = 0;  // no change of the prefix since then
  };
  enum class Stage { kHello, kProof, kReady };
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
  void take_hello(uint64_t id, Peer& peer, const wire::Hello& hello);
  void take_proof(uint64_t id, Peer& peer, const wire::Proof& proof);
  void take_request(uint64_t id, Peer& peer, const wire::Request& request);
  void give_up_wait(Peer& peer, uint64_t sequence);
  void wait_change(uint64_t id, Peer& peer, const wire::Request& request);
  void refuse(uint64_t id, const Status& why);
  void send(Peer& peer, const wire::FromServer& message);
  void bound_unsent(const Peer& receiver, size_t just_sent);
  void bound_waits();
  void drop(uint64_t id, const Status& why);
  void replace_older(const Peer& peer);
  void end_leases(const std::vector<LeaseId>& leases);
  void wake_waits();
  void watch_leases();
  void notice_standstill();
  void note_refusal(const std::string& peer, const Status& why);

  const ServerOptions options_;
  Runtime& runtime_;
  std::unique_ptr<DurableService> durable_;
  Service& service_;
  std::unique_ptr<net::Loop> loop_;
  std::shared_ptr<net::Listener> listener_;
  std::map<uint64_t, Peer> peers_;
  std::set<uint64_t> unproved_;  // of the peers, the oldest first
  const std::shared_ptr<size_t> unsent_ = std::make_shared<size_t>(0);  // of all peers
  uint64_t last_peer_ = 0;
  Revision woken_at_ = 0;  // no pending wait is for a change before it
  std::optional<Time> refusal_logged_;
  uint64_t refusals_unlogged_ = 0;
  net::Timer lease_end_;
  net::Timer lease_grace_;
  bool in_grace_ = false;
  net::Timer tick_;
  std::optional<Time> tick_due_;  // none: there is no lease
};

}  // namespace ffdl::store
