#include "benchmarks/hosts/streams.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "benchmarks/hosts/ways.h"

namespace ffdl::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSilenceMs = 60'000;
constexpr size_t kPieceBytes = 4 << 20;  // of one call
constexpr auto kConnectWithin = std::chrono::seconds(60);

Status failed(const char* what) {
  return {StatusCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

sockaddr_in endpoint(const std::string& address, int port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &made.sin_addr);
  return made;
}

void set_no_delay(int socket) {
  constexpr int kOn = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
}

Result<int> listen_at(const sockaddr_in& own) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  constexpr int kOn = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
      listen(listener, 64) == 0) {
    return listener;
  }
  const Status status = failed("listen");
  close(listener);
  return status;
}

// The other rank may listen a little later.
Result<int> connect_to(const sockaddr_in& other) {
  const auto until = Clock::now() + kConnectWithin;
  while (true) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(made, reinterpret_cast<const sockaddr*>(&other), sizeof other) == 0) return made;
    const Status status = failed("connect");
    close(made);
    if (Clock::now() > until) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status wait_for(std::vector<pollfd>& polled) {
  const int ready = poll(polled.data(), polled.size(), kSilenceMs);
  if (ready > 0) return {};
  return ready == 0 ? Status(StatusCode::kTimeout, "exchange bytes: none moved for a minute")
                    : failed("poll");
}

// Moves as many bytes of one connection as possible without waiting. `call` is send or recv.
template <class Call>
Status move_some(uint64_t& left, std::vector<char>& buffer, Call call) {
  const auto size = static_cast<size_t>(std::min<uint64_t>({left, buffer.size(), kPieceBytes}));
  const size_t at = left % (buffer.size() - size + 1);
  const ssize_t moved = call(buffer.data() + at, size);
  if (moved > 0) {
    left -= static_cast<uint64_t>(moved);
    return {};
  }
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  return moved == 0 ? Status(StatusCode::kPeerLost, "exchange bytes: the other rank has ended")
                    : failed("exchange bytes");
}

}  // namespace

Result<Streams> Streams::connect(int rank, const std::vector<std::string>& addresses, int count,
                                 uint16_t first_port) {
  Streams made(rank);
  const auto ranks = static_cast<int>(addresses.size());
  const int next = (rank + 1) % ranks;
  const auto place = [&](int of) {
    return endpoint(addresses[static_cast<size_t>(of)], first_port + of);
  };
  FFDL_ASSIGN_OR_RETURN(const int listener, listen_at(place(rank)));
  for (int i = 0; i < count; ++i) {
    FFDL_ASSIGN_OR_RETURN(const int socket, connect_to(place(next)));
    made.next_.push_back(socket);
  }
  for (int i = 0; i < count; ++i) {
    std::vector<pollfd> polled = {{listener, POLLIN, 0}};
    FFDL_RETURN_IF_ERROR(wait_for(polled));
    made.previous_.push_back(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  }
  close(listener);
  for (const int socket : made.next_) set_no_delay(socket);
  for (const int socket : made.previous_) set_no_delay(socket);
  return made;
}

Streams::~Streams() {
  for (const int socket : next_) close(socket);
  for (const int socket : previous_) close(socket);
}

Status Streams::exchange(uint64_t bytes, int count) {
  const auto size = static_cast<size_t>(count);
  outgoing_.resize(std::max<size_t>(outgoing_.size(), bytes));
  incoming_.resize(std::max<size_t>(incoming_.size(), bytes));
  std::vector<uint64_t> to_send(size, bytes / size);
  std::vector<uint64_t> to_receive(size, bytes / size);
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    for (size_t i = 0; i < size; ++i) {
      polled.push_back({to_send[i] > 0 ? next_[i] : -1, POLLOUT, 0});
      polled.push_back({to_receive[i] > 0 ? previous_[i] : -1, POLLIN, 0});
    }
    if (std::ranges::all_of(polled, [](const pollfd& one) { return one.fd < 0; })) return {};
    FFDL_RETURN_IF_ERROR(wait_for(polled));
    for (size_t i = 0; i < size; ++i) {
      if (polled[2 * i].revents != 0) {
        FFDL_RETURN_IF_ERROR(move_some(to_send[i], outgoing_, [&](char* data, size_t length) {
          return send(next_[i], data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        }));
      }
      if (polled[2 * i + 1].revents != 0) {
        FFDL_RETURN_IF_ERROR(move_some(to_receive[i], incoming_, [&](char* data, size_t length) {
          return recv(previous_[i], data, length, MSG_DONTWAIT);
        }));
      }
    }
  }
}

Status Streams::exchange_by(const std::string& way, uint64_t bytes) {
  outgoing_.resize(std::max<size_t>(outgoing_.size(), bytes));
  incoming_.resize(std::max<size_t>(incoming_.size(), bytes));
  if (way == "zerocopy") {
    return exchange_zero_copy(next_[0], previous_[0], outgoing_, incoming_, bytes);
  }
  if (way != "io_uring") return {StatusCode::kInvalidArgument, "exchange by '" + way + "'"};
  FFDL_ASSIGN_OR_RETURN(const auto ring, IoRing::make());
  return ring->exchange(next_[0], previous_[0], outgoing_, incoming_, bytes);
}

Status Streams::round_trips(uint64_t bytes, int64_t times) {
  if (rank_ > 1) return {};
  const int socket = rank_ == 0 ? next_[0] : previous_[0];
  outgoing_.resize(std::max<size_t>(outgoing_.size(), bytes));
  const auto give = [&] {
    return send(socket, outgoing_.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  };
  const auto take = [&] {
    return recv(socket, outgoing_.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  };
  const timeval silence = {.tv_sec = kSilenceMs / 1000, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  for (int64_t i = 0; i < times; ++i) {
    const bool done = rank_ == 0 ? give() && take() : take() && give();
    if (!done) return failed("send a message to and fro");
  }
  return {};
}

}  // namespace ffdl::bench
