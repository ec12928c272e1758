#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/store.h"
#include "net/address.h"
#include "net/challenge.h"
#include "net/frame.h"
#include "store/tcp/server.h"

namespace ffdl::store {

// A peer that sends arbitrary messages; each read waits at most 60 s.
class RawPeer {
 public:
  explicit RawPeer(const net::Address& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  }
  ~RawPeer() { ::close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }
  void send_bytes(std::string_view bytes) {
    // The server may have closed already.
    static_cast<void>(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void send(const wire::FromClient& message) {
    std::string bytes;
    net::append_frame(bytes, message.SerializeAsString());
    send_bytes(bytes);
  }
  // Returns nothing if the server has closed the connection.
  std::optional<wire::FromServer> read() {
    while (true) {
      auto frame = frames_.next();
      if (!frame.ok()) return std::nullopt;
      if (frame->has_value()) {
        wire::FromServer message;
        if (!message.ParseFromString(std::string(**frame))) return std::nullopt;
        return message;
      }
      char bytes[4096];
      const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
      timed_out_ = got < 0 && errno == EAGAIN;
      if (got <= 0) return std::nullopt;
      frames_.feed({bytes, static_cast<size_t>(got)});
    }
  }
  bool closed_by_server() { return !read().has_value() && !timed_out_; }

  void hello(uint32_t version = kProtocolVersion, uint64_t client = 7) {
    wire::FromClient message;
    message.mutable_hello()->set_version(version);
    message.mutable_hello()->set_client(client);
    message.mutable_hello()->set_nonce("nonce");
    send(message);
  }
  // Completes the handshake, after which requests may be sent.
  void get_ready(uint64_t client = 7) {
    hello(kProtocolVersion, client);
    const auto challenge = read();
    ASSERT_TRUE(challenge.has_value() && challenge->has_challenge());
    EXPECT_EQ(challenge->challenge().mac(),
              net::mac_of("s", {"server", "nonce", challenge->challenge().nonce()}));
    prove("s", challenge->challenge().nonce());
    const auto welcome = read();
    ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
    known_ = welcome->welcome().known();
  }
  void prove(std::string_view secret, std::string_view nonce) {
    wire::FromClient message;
    message.mutable_proof()->set_mac(net::mac_of(secret, {"client", "nonce", nonce}));
    send(message);
  }
  wire::Reply call(wire::Request request) {
    wire::FromClient message;
    *message.mutable_request() = std::move(request);
    send(message);
    const auto reply = read();
    EXPECT_TRUE(reply.has_value() && reply->has_reply());
    return reply.has_value() ? reply->reply() : wire::Reply();
  }
  bool known() const { return known_; }
  // Returns the server's end of the connection, in this process; -1: it is closed.
  int other_end() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size);
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_in other{};
      size = sizeof other;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &size) == 0 &&
          other.sin_family == AF_INET && other.sin_port == own.sin_port) {
        return fd;
      }
    }
    return -1;
  }
  // Limits the data that the kernel buffers while this peer does not read.
  void leave_little_room() const {
    constexpr int kRoom = 4096;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &kRoom, sizeof kRoom);
    ::setsockopt(other_end(), SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof kRoom);
  }
  // Does not wait.
  bool is_closed() const {
    char byte = 0;
    const ssize_t got = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  const int fd_;
  bool connected_ = false;
  bool known_ = false;
  bool timed_out_ = false;
  net::FrameReader frames_{1U << 24};
};

inline wire::Request put_empty(uint64_t sequence, std::string_view key,
                               std::optional<Revision> expected = {}) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_put()->set_key(std::string(key));
  if (expected.has_value()) request.mutable_put()->set_expected(*expected);
  return request;
}

inline wire::Request wait(uint64_t sequence, Revision after) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_wait_change()->set_prefix("k");
  request.mutable_wait_change()->set_after(after);
  return request;
}

}  // namespace ffdl::store
