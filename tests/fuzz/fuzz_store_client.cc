// Sends arbitrary bytes to the client of a store, in place of a server's challenge and of its
// replies. Each call ends in time, with an answer or a failure.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "ffdl/store.h"
#include "net/challenge.h"
#include "net/frame.h"
#include "wire/store.pb.h"

namespace {

using namespace ffdl;
using namespace std::chrono_literals;

// A server that sends the bytes. With `proves` it proves itself first.
class HostileServer {
 public:
  HostileServer(std::string_view bytes, bool proves) : bytes_(bytes), proves_(proves) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    FFDL_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                   listen(listener_, 16) == 0 &&
                   getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0,
               "a free port");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~HostileServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;
  std::string url() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  void accept_all() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const timeval patience{.tv_sec = 1, .tv_usec = 0};  // does not wait for a client that hangs
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      serve(fd);
      close(fd);
    }
  }
  void serve(int fd) const {
    net::FrameReader frames(size_t{1} << 22);
    wire::FromClient message;
    if (!read(fd, frames, message)) return;
    if (proves_) {
      wire::FromServer answer;
      answer.mutable_challenge()->set_nonce("nonce");
      answer.mutable_challenge()->set_mac(
          net::mac_of("", {"server", message.hello().nonce(), "nonce"}));
      send(fd, answer);
      if (!read(fd, frames, message)) return;
      answer.mutable_welcome()->set_store(1);
      send(fd, answer);
      if (!read(fd, frames, message)) return;  // the first call
    }
    put(fd, bytes_);
  }
  static bool read(int fd, net::FrameReader& frames, wire::FromClient& message) {
    char bytes[4096];
    while (true) {
      auto frame = frames.next();
      FFDL_CHECK(frame.ok(), "a client sends frames");
      if (frame->has_value()) return message.ParseFromString(std::string(**frame));
      const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
      if (got <= 0) return false;
      frames.feed({bytes, static_cast<size_t>(got)});
    }
  }
  static void send(int fd, const wire::FromServer& message) {
    std::string bytes;
    net::append_frame(bytes, message.SerializeAsString());
    put(fd, bytes);
  }
  static void put(int fd, std::string_view bytes) {
    static_cast<void>(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  const std::string bytes_;
  const bool proves_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

void call_each(Store& store) {
  const Time begun = system_runtime().now();
  if (const auto entry = store.get("k"); entry.ok()) {
    FFDL_CHECK(entry->key == "k", "the key that was asked for");
  }
  if (const auto entries = store.list("k"); entries.ok()) {
    for (const Entry& entry : *entries) FFDL_CHECK(entry.key.starts_with("k"), "as asked");
  }
  static_cast<void>(store.put("k", "v"));
  if (const auto newest = store.wait_change("", 1, begun + 20ms); newest.ok()) {
    FFDL_CHECK(*newest > 0, "a store begins with revision 1");
  }
  static_cast<void>(store.grant_lease(1s));
  FFDL_CHECK(system_runtime().now() - begun < 60s, "each call ends");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  StoreOptions options;
  options.operation_timeout = 100ms;
  for (const bool proves : {false, true}) {
    const HostileServer server(bytes, proves);
    const auto store = open_store(server.url(), system_runtime(), options);
    if (store.ok()) call_each(**store);
  }
  return 0;
}
