#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/listener.h"
#include "support/on_loop.h"
#include "wire/store.pb.h"

namespace ffdl::testing {

// A proxy between a store's clients and its server. It loses the messages that a test chooses.
class LossyProxy {
 public:
  explicit LossyProxy(net::Address server)
      : server_(std::move(server)), loop_(net::Loop::start("proxy").value()) {
    listener_ = net::Listener::open(*loop_, {"127.0.0.1", 0}).value();
    on_loop(*loop_, [this] {
      listener_->start([this](asio::ip::tcp::socket socket) { accept(std::move(socket)); });
    });
  }
  ~LossyProxy() { loop_->stop(); }
  LossyProxy(const LossyProxy&) = delete;
  LossyProxy& operator=(const LossyProxy&) = delete;

  std::string url() const { return "tcp://" + listener_->address().text(); }
  // Drops the next reply and ends its connection.
  void lose_next_reply() { lose_one_.store(true); }
  // Drops all replies; connections stay.
  void swallow_replies(bool on) { swallow_.store(on); }
  // Ends all connections.
  void cut() {
    on_loop(*loop_, [this] {
      for (const auto& pair : pairs_) pair->close();
    });
  }
  int lost() const { return lost_.load(); }
  // Returns all bytes that were sent in frames through this proxy.
  std::string passed() {
    std::string passed;
    on_loop(*loop_, [&] { passed = passed_; });
    return passed;
  }

 private:
  struct Pair {
    std::shared_ptr<net::Connection> client;
    std::shared_ptr<net::Connection> server;
    void close() const {
      if (client != nullptr) client->close();
      server->close();
    }
  };

  // Connects to the server first, so that the client's messages are read when they can be passed
  // on.
  void accept(asio::ip::tcp::socket socket) {
    pairs_.push_back(std::make_unique<Pair>());
    Pair* const pair = pairs_.back().get();
    const auto held = std::make_shared<asio::ip::tcp::socket>(std::move(socket));
    const auto ended = [pair](const Status&) { pair->close(); };
    pair->server = net::Connection::connect(
        *loop_, server_,
        {.on_open =
             [this, pair, held, ended] {
               pair->client = net::Connection::accepted(
                   std::move(*held),
                   {.on_open = {},
                    .on_frame =
                        [this, pair](std::string_view frame) {
                          passed_ += frame;
                          pair->server->send(frame);
                        },
                    .on_closed = ended});
               pair->client->set_frame_max(kFrameMax);
             },
         .on_frame = [this, pair](std::string_view frame) { pass(*pair, frame); },
         .on_closed = ended});
    pair->server->set_frame_max(kFrameMax);
  }

  void pass(Pair& pair, std::string_view frame) {
    passed_ += frame;
    wire::FromServer message;
    const bool is_reply =
        message.ParseFromArray(frame.data(), static_cast<int>(frame.size())) && message.has_reply();
    if (is_reply && lose_one_.exchange(false)) {
      lost_.fetch_add(1);
      return pair.close();
    }
    if (is_reply && swallow_.load()) return;
    pair.client->send(frame);
  }

  static constexpr size_t kFrameMax = size_t{1} << 26;
  const net::Address server_;
  std::unique_ptr<net::Loop> loop_;
  std::shared_ptr<net::Listener> listener_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::string passed_;  // changed on the loop
  std::atomic<bool> lose_one_{false};
  std::atomic<bool> swallow_{false};
  std::atomic<int> lost_{0};
};

}  // namespace ffdl::testing
