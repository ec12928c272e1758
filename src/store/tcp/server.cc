#include "store/tcp/server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/challenge.h"
#include "net/unproved_limit.h"
#include "store/tcp/server_folder.h"

namespace ffdl::store {

using base::make_error;

namespace {

// The most bytes of a refusal's text: a client that is not ready accepts only short messages.
constexpr size_t kRefusalMax = base::kStoreHelloMax / 2;

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Runtime& runtime) {
  if (options.secret.empty() && !options.address.is_loopback()) {
    return base::invalid_argument(
        "serve a store at '{}': other machines can reach this address, but the store has no "
        "secret; pass the job's secret, or listen on 127.0.0.1",
        options.address.text());
  }
  FFDL_ASSIGN_OR_RETURN(auto durable, DurableService::open({options.folder, options.secret,
                                                            options.host, options.makes_secret},
                                                           runtime));
  FFDL_ASSIGN_OR_RETURN(auto loop, net::Loop::start("ffdl-store"));
  auto server =
      std::unique_ptr<Server>(new Server(options, runtime, std::move(durable), std::move(loop)));
  FFDL_RETURN_IF_ERROR(server->listen());
  return server;
}

Server::Server(ServerOptions options, Runtime& runtime, std::unique_ptr<DurableService> durable,
               std::unique_ptr<net::Loop> loop)
    : options_(std::move(options)),
      runtime_(runtime),
      durable_(std::move(durable)),
      service_(durable_->service()),
      loop_(std::move(loop)),
      woken_at_(service_.revision()),
      lease_end_(*loop_),
      lease_grace_(*loop_),
      tick_(*loop_) {}

Server::~Server() {
  loop_->stop();
  if (refusals_unlogged_ == 0) return;
  base::log_warning("serve the store in '{}': refused {} more connections", options_.folder,
                    refusals_unlogged_);
}

Status Server::listen() {
  auto listener = net::Listener::open(*loop_, options_.address);
  if (!listener.ok() && options_.other_port) {
    listener = net::Listener::open(*loop_, {options_.address.host, 0});
  }
  FFDL_ASSIGN_OR_RETURN(listener_, std::move(listener));
  FFDL_RETURN_IF_ERROR(write_server_address(options_.folder, listener_->address()));
  base::log_info("serve the store in '{}' at {}, from revision {}", options_.folder,
                 listener_->address().text(), service_.revision());
  loop_->post([this] {
    listener_->start([this](asio::ip::tcp::socket socket) { accept(std::move(socket)); });
    watch_leases();
  });
  return {};
}

void Server::accept(asio::ip::tcp::socket socket) {
  const uint64_t id = ++last_peer_;
  Peer& peer = peers_.try_emplace(id, *loop_).first->second;
  peer.connection = net::Connection::accepted(
      std::move(socket),
      {.on_open = {},
       .on_frame = [this, id](std::string_view frame) { take(id, frame); },
       .on_closed = [this, id](const Status& why) { drop(id, why); }},
      unsent_);
  peer.patience.start(runtime_.now() + base::kStoreHandshakeMax, [this, id] {
    drop(id, make_error(StatusCode::kTimeout, "it did not prove itself in time"));
  });
  unproved_.insert(id);
  for (const size_t most = net::unproved_max(); unproved_.size() > most;) {
    drop(*unproved_.begin(),
         make_error(StatusCode::kExhausted,
                    "{} newer connections arrived before it had proved itself", most));
  }
}

void Server::take(uint64_t id, std::string_view frame) {
  Peer& peer = peers_.at(id);
  wire::FromClient message;
  const bool read = message.ParseFromArray(frame.data(), static_cast<int>(frame.size()));
  if (read && peer.stage == Stage::kHello && message.has_hello()) {
    take_hello(id, peer, message.hello());
  } else if (read && peer.stage == Stage::kProof && message.has_proof()) {
    take_proof(id, peer, message.proof());
  } else if (read && peer.stage == Stage::kReady && message.has_request()) {
    take_request(id, peer, message.request());
  } else if (read && peer.stage == Stage::kReady &&
             message.message_case() == wire::FromClient::kGiveUp) {
    give_up_wait(peer, message.give_up());
  } else {
    drop(id, make_error(StatusCode::kCorrupt, "it sent a message that is not allowed here"));
  }
}

void Server::take_hello(uint64_t id, Peer& peer, const wire::Hello& hello) {
  if (hello.version() != kProtocolVersion) {
    return refuse(id, base::invalid_argument(
                          "connect to a store: the server uses version {}, this client {}; "
                          "use the same version of ffdl everywhere",
                          kProtocolVersion, hello.version()));
  }
  auto nonce = net::make_nonce();
  if (!nonce.ok()) return refuse(id, nonce.status());
  peer.client = hello.client();
  peer.its_nonce = hello.nonce();
  peer.our_nonce = *nonce;
  peer.stage = Stage::kProof;
  wire::FromServer message;
  message.mutable_challenge()->set_nonce(peer.our_nonce);
  message.mutable_challenge()->set_mac(
      net::mac_of(secret(), {"server", peer.its_nonce, peer.our_nonce}));
  send(peer, message);
}

void Server::take_proof(uint64_t id, Peer& peer, const wire::Proof& proof) {
  const std::string expected = net::mac_of(secret(), {"client", peer.its_nonce, peer.our_nonce});
  if (!net::same_mac(proof.mac(), expected)) {
    return refuse(id, base::invalid_argument("connect to a store: this client has another "
                                             "secret; pass the job's secret to both"));
  }
  replace_older(peer);
  if (peers_.size() - unproved_.size() >= base::kStoreConnectionsMax) {
    return refuse(id, make_error(StatusCode::kExhausted,
                                 "connect to a store: it has {} connections, which is the most; "
                                 "close stores that are not used",
                                 base::kStoreConnectionsMax));
  }
  const bool known = service_.knows(peer.client);
  wire::Record joined;
  joined.set_joined(peer.client);
  const auto committed = durable_->commit(joined);
  if (!committed.ok()) return refuse(id, committed.status());
  peer.patience.cancel();
  peer.stage = Stage::kReady;
  unproved_.erase(id);
  peer.connection->set_frame_max(base::kStoreRequestMax);
  wire::FromServer message;
  wire::Welcome& welcome = *message.mutable_welcome();
  welcome.set_store(service_.store());
  welcome.set_known(known);
  send(peer, message);
}

// Keeps the client's leases: one that connects again before its old connection was seen to end is
// alive.
void Server::replace_older(const Peer& peer) {
  std::erase_if(peers_, [&](auto& entry) {
    const Peer& other = entry.second;
    if (&other == &peer || other.stage != Stage::kReady || other.client != peer.client) {
      return false;
    }
    other.connection->close();
    return true;
  });
}

void Server::take_request(uint64_t id, Peer& peer, const wire::Request& request) {
  FFDL_CHECK(peer.stage == Stage::kReady && !unproved_.contains(id), "it has proved itself");
  wire::FromServer message;
  wire::Reply& reply = *message.mutable_reply();
  if (request.has_wait_change()) {
    return wait_change(id, peer, request);
  } else if (!Service::changes_the_store(request)) {
    reply = service_.look(request, runtime_.now());
  } else if (auto again = service_.answered(peer.client, request); again.has_value()) {
    reply = std::move(*again);
  } else if (auto failure = service_.failure_of(request); failure.has_value()) {
    reply = std::move(*failure);
    reply.set_sequence(request.sequence());
  } else {
    wire::Record record;
    record.mutable_called()->set_client(peer.client);
    *record.mutable_called()->mutable_request() = request;
    auto committed = durable_->commit(record);
    reply = committed.ok() ? std::move(*committed) : reply_with(committed.status());
    reply.set_sequence(request.sequence());
  }
  send(peer, message);
  wake_waits();
  watch_leases();
}

void Server::wait_change(uint64_t id, Peer& peer, const wire::Request& request) {
  const wire::WaitChange& wait = request.wait_change();
  wire::FromServer message;
  wire::Reply& reply = *message.mutable_reply();
  if (wait.prefix().size() > base::kStoreKeyMax) {  // no key can have it; it is not kept
    reply = reply_with(base::invalid_argument("wait for a change: a prefix of {} bytes; use {}",
                                              wait.prefix().size(), base::kStoreKeyMax));
  } else if (!service_.has_changed(wait.prefix(), wait.after())) {
    if (peer.waits.size() >= base::kStoreCallsMax) {
      return drop(id, make_error(StatusCode::kExhausted, "it waits for too many changes"));
    }
    peer.waits[request.sequence()] = {wait.prefix(), service_.revision()};
    return bound_waits();
  } else {
    reply.set_number(service_.revision());
  }
  reply.set_sequence(request.sequence());
  send(peer, message);
}

// Drops the peer with the most waits, which hinders the others, whichever of them came last.
void Server::bound_waits() {
  size_t waits = 0;
  auto most = peers_.end();
  for (auto at = peers_.begin(); at != peers_.end(); ++at) {
    waits += at->second.waits.size();
    if (most == peers_.end() || at->second.waits.size() > most->second.waits.size()) most = at;
  }
  if (waits <= base::kStoreWaitsMax) return;
  drop(most->first, make_error(StatusCode::kExhausted,
                               "it waits for {} of the {} changes that all clients wait for",
                               most->second.waits.size(), waits));
}

void Server::give_up_wait(Peer& peer, uint64_t sequence) {
  if (peer.waits.erase(sequence) == 0) return;  // it has been answered
  wire::FromServer message;
  wire::Reply& reply = *message.mutable_reply();
  reply.set_code(static_cast<uint32_t>(StatusCode::kTimeout));
  reply.set_sequence(sequence);
  send(peer, message);
}

void Server::send(Peer& peer, const wire::FromServer& message) {
  const std::string bytes = message.SerializeAsString();
  FFDL_CHECK(bytes.size() <= base::kStoreReplyMax, "a store holds less than its client accepts");
  peer.connection->send(bytes);
  if (*unsent_ > base::kStoreUnsentMax) bound_unsent(peer, bytes.size());
}

// Bounds the memory for peers that do not read. `just_sent` does not count, as the receiver may
// read it as soon as it arrives.
void Server::bound_unsent(const Peer& receiver, size_t just_sent) {
  const auto unread = [&](const Peer& peer) {
    const size_t unsent = peer.connection->unsent();
    return &peer == &receiver ? unsent - std::min(unsent, just_sent) : unsent;
  };
  while (*unsent_ > base::kStoreUnsentMax) {
    Peer* most = nullptr;
    for (auto& [id, peer] : peers_) {
      if (most == nullptr || unread(peer) > unread(*most)) most = &peer;
    }
    if (unread(*most) == 0) return;  // a single connection has its own bound
    most->connection->fail_soon(make_error(
        StatusCode::kExhausted, "it has not read {} bytes, and {} bytes wait for all clients",
        most->connection->unsent(), *unsent_));
  }
}

// Closes the connection at once: the reason fits into the socket.
void Server::refuse(uint64_t id, const Status& why) {
  Peer& peer = peers_.at(id);
  wire::FromServer message;
  message.mutable_refusal()->set_code(static_cast<uint32_t>(why.code()));
  message.mutable_refusal()->set_message(std::string(why.message().substr(0, kRefusalMax)));
  send(peer, message);
  drop(id, why);
}

void Server::note_refusal(const std::string& peer, const Status& why) {
  const Time now = runtime_.now();
  if (refusal_logged_ && now - *refusal_logged_ < base::kRefusalLogInterval) {
    ++refusals_unlogged_;
    return;
  }
  refusal_logged_ = now;
  const uint64_t others = std::exchange(refusals_unlogged_, 0);
  base::log_warning("serve the store in '{}': refused {}: {}{}", options_.folder, peer,
                    why.message(),
                    others == 0 ? "" : fmt::format("; {} others since the last such line", others));
}

void Server::drop(uint64_t id, const Status& why) {
  const auto found = peers_.find(id);
  Peer& peer = found->second;
  const bool was_ready = peer.stage == Stage::kReady;
  if (!was_ready) note_refusal(peer.connection->peer(), why);
  unproved_.erase(id);
  const uint64_t client = peer.client;
  peer.connection->close();
  peers_.erase(found);
  if (was_ready) end_leases(service_.leases_of(client));
}

void Server::end_leases(const std::vector<LeaseId>& leases) {
  for (const LeaseId lease : leases) {
    wire::Record record;
    record.set_lease_over(lease);
    const auto committed = durable_->commit(record);
    if (!committed.ok()) {
      base::log_warning("end lease {}: {}", lease, committed.status().to_string());
    }
  }
  wake_waits();
  watch_leases();
}

void Server::wake_waits() {
  if (service_.revision() == woken_at_) return;
  woken_at_ = service_.revision();
  for (auto& [id, peer] : peers_) {
    for (auto wait = peer.waits.begin(); wait != peer.waits.end();) {
      if (!service_.has_changed(wait->second.prefix, wait->second.after)) {
        wait->second.after = woken_at_;
        ++wait;
        continue;
      }
      wire::FromServer message;
      message.mutable_reply()->set_sequence(wait->first);
      message.mutable_reply()->set_number(woken_at_);
      send(peer, message);
      wait = peer.waits.erase(wait);
    }
  }
}

void Server::watch_leases() {
  const Time next = service_.next_end();
  if (in_grace_) return;
  if (next == kNoDeadline) return lease_end_.cancel();
  if (!tick_due_) notice_standstill();
  lease_end_.start(next, [this] {
    in_grace_ = true;
    lease_grace_.start(runtime_.now() + base::kLeaseGrace, [this] {
      in_grace_ = false;
      end_leases(service_.leases_over(runtime_.now()));
    });
  });
}

// Prolongs leases after a standstill: a server that did not run cannot judge which clients were
// silent. A busy or paused machine delays its clients as well, and they answer again when it runs.
void Server::notice_standstill() {
  const Time now = runtime_.now();
  const Duration late = tick_due_ ? now - *tick_due_ : Duration::zero();
  if (late > base::kLeaseTick) service_.prolong_leases(late);
  if (late > base::kStandstillToLog) {
    base::log_warning(
        "serve the store in '{}': this process stood still for {} s; each lease lasts so much "
        "longer",
        options_.folder, std::chrono::round<std::chrono::seconds>(late).count());
  }
  if (!tick_due_ || late > base::kLeaseTick) tick_due_ = now;
  *tick_due_ += base::kLeaseTick;
  if (service_.next_end() == kNoDeadline) return tick_due_.reset();
  tick_.start(*tick_due_, [this] { notice_standstill(); });
}

}  // namespace ffdl::store
