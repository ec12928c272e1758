#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace ffdl::testing {

// Listens on the loopback and answers each HTTP request by the test's script. It may behave as a
// faulty etcd, or as no etcd at all.
class ScriptedServer {
 public:
  class Peer {
   public:
    explicit Peer(int fd) : fd_(fd) {}
    void send(std::string_view text) const {
      static_cast<void>(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL));
    }
    void answer(std::string_view body, std::string_view status = "200 OK") const {
      send("HTTP/1.1 " + std::string(status) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    }
    // Begins a stream; parts follow.
    void begin() const { send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); }
    void part(std::string_view text) const {
      char size[20];
      std::snprintf(size, sizeof size, "%zx\r\n", text.size());
      send(size + std::string(text) + "\r\n");
    }
    // Waits until the other side, or the end of the test, closes the connection.
    void hang() const {
      char byte = 0;
      while (recv(fd_, &byte, 1, 0) > 0) {
      }
    }

   private:
    const int fd_;
  };
  // Handles a request: its head and body. Returns false to close the connection.
  using Script = std::function<bool(const std::string& request, Peer& peer)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        listen(listener_, 64) == 0) {
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& connection : connections_) shutdown(connection.fd, SHUT_RDWR);
    }
    for (auto& connection : connections_) {
      connection.thread.join();
      close(connection.fd);
    }
    close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "etcd://127.0.0.1:" + std::to_string(port_); }

 private:
  struct Connection {
    int fd;
    std::thread thread;
  };

  void accept_all() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      connections_.push_back({fd, std::thread([this, fd] { serve(fd); })});
    }
  }
  void serve(int fd) {
    Peer peer(fd);
    std::string unread;
    while (true) {
      const std::string request = read_request(fd, unread);
      if (request.empty() || !script_(request, peer)) break;
    }
    shutdown(fd, SHUT_RDWR);
  }
  static std::string read_request(int fd, std::string& unread) {
    while (true) {
      const size_t head = unread.find("\r\n\r\n");
      const size_t length = unread.find("Content-Length: ");
      size_t whole = head == std::string::npos ? std::string::npos : head + 4;
      if (whole != std::string::npos && length < head)
        whole += std::stoul(unread.substr(length + 16));
      if (whole != std::string::npos && unread.size() >= whole) {
        std::string request = unread.substr(0, whole);
        unread.erase(0, whole);
        return request;
      }
      char bytes[4096];
      const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
      if (count <= 0) return {};
      unread.append(bytes, static_cast<size_t>(count));
    }
  }

  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;
  std::list<Connection> connections_;
};

}  // namespace ffdl::testing
