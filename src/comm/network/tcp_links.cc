#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "base/fork_private_fd.h"
#include "base/limits.h"
#include "base/resource_limit.h"
#include "comm/network/links.h"
#include "comm/network/meeting.h"
#include "comm/network/tcp_connection.h"
#include "comm/network/tls_links.h"
#include "comm/operation/rendezvous.h"
#include "comm/operation/request.h"
#include "comm/operation/world_key.h"
#include "net/tune.h"

// The transport of Backend::kTcp: one proved connection to each other rank, and no thread of its
// own. The thread that waits moves the bytes of all connections.
namespace ffdl::comm {
namespace {

using base::make_error;
using std::chrono::milliseconds;

constexpr std::string_view kTcpTopic = "tcp";
constexpr Duration kSilenceCheckInterval = Duration(base::kPeerSilentMax) / 20;

// Sends small messages at once, and requests keep-alive probes, also on an idle connection.
// silence_of() ends it, not the probes: TCP_USER_TIMEOUT would also end the connection to a member
// that is alive and does not read.
void tune_link(int fd) {
  constexpr int kMany = 100;
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);  // a socket without it works too
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, net::kTcpRtoMaxMs, 1000);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kMany);
}

// Returns for how long the other host has not acknowledged what it was sent, be it data or a probe;
// zero if it has acknowledged all. A cut link does not report itself.
Duration silence_of(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  if (info.tcpi_unacked == 0 && info.tcpi_probes == 0) return {};
  return milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

class TcpLinks final : public Links {
 public:
  using Sockets = std::vector<base::ForkPrivateFd>;
  using Streams = std::vector<std::unique_ptr<net::ByteStream>>;

  // Takes the sockets and their streams by rank; there is none at this one.
  TcpLinks(const World& world, Sockets sockets, Streams streams, base::ForkPrivateFd wake,
           std::function<Status()> interrupt_check);

  std::unique_ptr<Place> make_place(std::byte* data, uint64_t bytes) override;
  void stop() override;
  void close() override;
  void leave() override;

  // Returns the connection to `rank`, or why it has ended.
  Result<TcpConnection*> connection(int rank);
  // Moves the bytes of all connections until no transfer of `owner` is open.
  Status wait(const OpenTransfers& owner, Time deadline);
  void forget(const OpenTransfers& owner);

 private:
  bool is_fork() const { return getpid() != pid_; }
  // Moves what can move now. Returns whether any bytes have moved.
  bool move_all();
  Status check_losses(const OpenTransfers& owner) const;
  void end_silent(const OpenTransfers& owner);
  // Looks for interrupts and silent hosts, if it is time to.
  Status check_others(const OpenTransfers& owner, Time now);
  // Waits until a connection can go on, stop(), or the time.
  Status sleep(Time until);
  void flush(Time deadline);
  Status lost(int rank, const Status& cause) const;

  const World world_;
  const pid_t pid_ = getpid();
  Sockets sockets_;
  const base::ForkPrivateFd wake_;  // an event, readable after stop()
  const std::function<Status()> interrupt_check_;
  std::vector<std::unique_ptr<TcpConnection>> connections_;  // by rank; null at this one
  std::vector<pollfd> polled_;
  Time next_silence_check_{};
  Time next_interrupt_check_{};
  std::atomic<bool> is_stopped_ = false;
};

class TcpPlace final : public Place {
 public:
  TcpPlace(TcpLinks& links, std::byte* data, uint64_t bytes)
      : links_(links), data_(data), bytes_(bytes) {}
  ~TcpPlace() override {
    if (open_.count > 0) links_.forget(open_);
  }

  Status send(int to, Tag tag, uint64_t offset, uint64_t bytes) override {
    FFDL_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "a message lies in its place");
    FFDL_ASSIGN_OR_RETURN(TcpConnection* const connection, links_.connection(to));
    connection->send(tag, data_ + offset, bytes, open_);
    return {};
  }

  Status receive(int from, Tag tag, uint64_t offset, uint64_t bytes) override {
    FFDL_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "a message lies in its place");
    FFDL_ASSIGN_OR_RETURN(TcpConnection* const connection, links_.connection(from));
    connection->receive(tag, data_ + offset, bytes, open_);
    return {};
  }

  Status wait(Time deadline) override { return links_.wait(open_, deadline); }

 private:
  TcpLinks& links_;
  std::byte* const data_;
  const uint64_t bytes_;
  OpenTransfers open_;
};

TcpLinks::TcpLinks(const World& world, Sockets sockets, Streams streams, base::ForkPrivateFd wake,
                   std::function<Status()> interrupt_check)
    : world_(world),
      sockets_(std::move(sockets)),
      wake_(std::move(wake)),
      interrupt_check_(std::move(interrupt_check)) {
  FFDL_CHECK(streams.size() == world_.members.size(), "a meeting gives one to each member");
  for (auto& stream : streams) {
    connections_.push_back(stream == nullptr ? nullptr
                                             : std::make_unique<TcpConnection>(std::move(stream)));
  }
}

std::unique_ptr<Place> TcpLinks::make_place(std::byte* data, uint64_t bytes) {
  return std::make_unique<TcpPlace>(*this, data, bytes);
}

Result<TcpConnection*> TcpLinks::connection(int rank) {
  TcpConnection* const found = connections_[static_cast<size_t>(rank)].get();
  FFDL_CHECK(found != nullptr, "no rank sends to itself, and none sends after leave()");
  if (found->has_ended()) return lost(rank, found->ended());
  return found;
}

Status TcpLinks::lost(int rank, const Status& cause) const {
  const std::string& id = world_.members[static_cast<size_t>(rank)].id;
  if (cause.code() == StatusCode::kCorrupt) {
    return make_error(StatusCode::kCorrupt, "{} at rank {}: rank {} '{}' sent {}; form a new world",
                      kOperate, world_.rank, rank, id, cause.message());
  }
  return make_error(StatusCode::kPeerLost,
                    "{} at rank {}: rank {} '{}' died, failed or left ({}); form a new world",
                    kOperate, world_.rank, rank, id, cause.message());
}

bool TcpLinks::move_all() {
  bool has_moved = false;
  for (const auto& connection : connections_) {
    if (connection != nullptr && connection->move()) has_moved = true;
  }
  return has_moved;
}

Status TcpLinks::check_losses(const OpenTransfers& owner) const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    const auto& connection = connections_[static_cast<size_t>(rank)];
    if (connection == nullptr) continue;
    const Status loss = connection->loss_for(owner);
    if (!loss.ok()) return lost(rank, loss);
  }
  return {};
}

void TcpLinks::end_silent(const OpenTransfers& owner) {
  next_silence_check_ = deadline_in(kSilenceCheckInterval);
  for (size_t rank = 0; rank < connections_.size(); ++rank) {
    TcpConnection* const connection = connections_[rank].get();
    if (connection == nullptr || !connection->is_used_by(owner)) continue;
    if (silence_of(sockets_[rank].get()) < base::kPeerSilentMax) continue;
    connection->end(make_error(StatusCode::kPeerLost, "its host has acknowledged nothing for {} s",
                               std::chrono::seconds(base::kPeerSilentMax).count()));
  }
}

Status TcpLinks::check_others(const OpenTransfers& owner, Time now) {
  if (now >= next_silence_check_) end_silent(owner);
  if (!interrupt_check_ || now < next_interrupt_check_) return {};
  next_interrupt_check_ = now + base::kStandingInterval;
  return interrupt_check_();
}

Status TcpLinks::wait(const OpenTransfers& owner, Time deadline) {
  Time spin_end = deadline_in(base::kLinkSpin);
  while (true) {
    if (is_stopped_) return make_error(StatusCode::kCancelled, "{}: stopped", kOperate);
    if (owner.count == 0) return {};
    const bool has_moved = move_all();
    if (owner.count == 0) return {};
    FFDL_RETURN_IF_ERROR(check_losses(owner));
    const Time now = std::chrono::steady_clock::now();
    if (now >= deadline) {
      return make_error(StatusCode::kTimeout,
                        "{} at rank {}: the deadline passed before all data had been received and "
                        "sent; wait longer",
                        kOperate, world_.rank);
    }
    FFDL_RETURN_IF_ERROR(check_others(owner, now));
    if (has_moved) {
      spin_end = now + base::kLinkSpin;
    } else if (now < spin_end) {
      sched_yield();
    } else {
      const Time next_check = interrupt_check_
                                  ? std::min(next_interrupt_check_, next_silence_check_)
                                  : next_silence_check_;
      FFDL_RETURN_IF_ERROR(sleep(std::min(deadline, next_check)));
    }
  }
}

Status TcpLinks::sleep(Time until) {
  polled_.clear();
  for (size_t rank = 0; rank < connections_.size(); ++rank) {
    const TcpConnection* const connection = connections_[rank].get();
    const short events = connection == nullptr ? short{0} : connection->wanted_events();
    // poll() skips negative descriptors.
    polled_.push_back({events == 0 ? -1 : sockets_[rank].get(), events, 0});
  }
  polled_.push_back({wake_.get(), POLLIN, 0});
  const Duration left = std::max<Duration>(until - std::chrono::steady_clock::now(), {});
  const auto patience = std::chrono::ceil<milliseconds>(std::min(left, kSilenceCheckInterval));
  if (poll(polled_.data(), polled_.size(), static_cast<int>(patience.count())) < 0) {
    if (errno == EINTR) return {};
    return base::system_failure(fmt::format("{}: poll", kOperate), errno, "try again");
  }
  for (size_t rank = 0; rank < connections_.size(); ++rank) {
    if ((polled_[rank].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      connections_[rank]->note_hangup();
    }
  }
  return {};
}

void TcpLinks::forget(const OpenTransfers& owner) {
  if (is_fork()) return;  // the descriptors are the parent's
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->forget(owner);
  }
}

void TcpLinks::stop() {
  is_stopped_ = true;
  const uint64_t once = 1;
  // Fails only when the event is set already, or in a fork, where no thread waits.
  static_cast<void>(::write(wake_.get(), &once, sizeof once) == sizeof once);
}

// Leaves the descriptors open for a thread that waits; the others read the end of the connection.
void TcpLinks::close() {
  for (const base::ForkPrivateFd& socket : sockets_) {
    if (socket.valid()) ::shutdown(socket.get(), SHUT_RDWR);
  }
}

// The kernel sends the rest of what it has been given.
void TcpLinks::leave() {
  if (!is_fork()) flush(deadline_in(base::kLinkSilenceMax));
  for (auto& connection : connections_) connection.reset();
  sockets_.clear();
}

void TcpLinks::flush(Time deadline) {
  while (std::chrono::steady_clock::now() < deadline) {
    polled_.clear();
    for (size_t rank = 0; rank < connections_.size(); ++rank) {
      TcpConnection* const connection = connections_[rank].get();
      if (connection == nullptr) continue;
      connection->write_some();
      if (connection->has_ended() || !connection->has_unsent()) continue;
      polled_.push_back({sockets_[rank].get(), POLLOUT, 0});
    }
    if (polled_.empty()) return;
    poll(polled_.data(), polled_.size(), static_cast<int>(milliseconds(100).count()));
  }
}

}  // namespace

Result<MetLinks> connect_tcp_links(const World& world, Store& store, Time deadline,
                                   const std::string& address,
                                   const CommunicatorOptions& options) {
  FFDL_ASSIGN_OR_RETURN(LinkMeeting meeting, LinkMeeting::listen(world, address, options));
  base::ForkPrivateFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return base::system_failure(fmt::format("connect {} as rank {}", name_of(world), world.rank),
                                errno, "try again");
  }
  FFDL_ASSIGN_OR_RETURN(const Told told, exchange_records(world, store, kTcpTopic,
                                                          to_record(meeting.record()), deadline));
  FFDL_ASSIGN_OR_RETURN(TcpLinks::Sockets sockets,
                        meeting.connect(told.records, deadline, options));
  TcpLinks::Streams streams;
  for (const base::ForkPrivateFd& socket : sockets) {
    if (socket.valid()) tune_link(socket.get());
    if (!options.tls) streams.push_back(socket.valid() ? net::plain_stream(socket.get()) : nullptr);
  }
  if (options.tls) {
    FFDL_ASSIGN_OR_RETURN(streams,
                          encrypt_links(world, sockets, meeting.token(), deadline, options));
  }
  auto links = std::make_unique<TcpLinks>(world, std::move(sockets), std::move(streams),
                                          std::move(wake), options.interrupt_check);
  return MetLinks{.links = std::move(links), .record = told.lease};
}

}  // namespace ffdl::comm
