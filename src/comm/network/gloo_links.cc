#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "base/fork_private_fd.h"
#include "base/held_signal.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/resource_limit.h"
#include "comm/network/links.h"
#include "comm/network/meeting.h"
#include "comm/operation/rendezvous.h"
#include "comm/operation/request.h"
#include "comm/operation/world_key.h"

// The only file that knows gloo. It uses only pairs and unbound buffers, hands the pairs proved
// connections (network/meeting.h), and converts gloo's exceptions to a Status.
namespace ffdl::comm {
namespace {

namespace tcp = gloo::transport::tcp;

using base::make_error;
using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr std::string_view kTopic = "gloo";

bool is_confirmed(Tag tag) { return tag != Tag::kFirst; }
// Returns whether an empty message follows, for which the receiver still waits. Once a message has
// begun to arrive, gloo forgets its receiver. It then does not report a broken connection.
bool has_trailer(uint64_t bytes) { return bytes > 0; }
uint64_t receipt_of(Tag tag) { return base::kLinkReceiptTag + static_cast<uint64_t>(tag); }
uint64_t trailer_of(Tag tag) { return base::kLinkTrailerTag + static_cast<uint64_t>(tag); }

// Converts a deadline to gloo's milliseconds from now; zero polls once.
milliseconds left_until(Time deadline) {
  const Time now = std::chrono::steady_clock::now();
  if (deadline <= now) return milliseconds(0);
  const Duration left = std::min<Duration>(deadline - now, base::kLinkWaitMax);
  return std::chrono::ceil<milliseconds>(left);
}

// Runs `body` once on the thread of gloo's loop, which handles no event meanwhile.
class LoopTurn final : public tcp::Handler {
 public:
  // Errors: those of `body`, kExhausted (descriptors). Rethrows gloo's exceptions.
  static Status run(tcp::Device& device, std::function<void()> body) {
    // The event is readable from the beginning.
    const base::ForkPrivateFd event(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid()) {
      return base::system_failure("connect", errno, "try again");
    }
    LoopTurn turn(device, event.get(), std::move(body));
    device.registerDescriptor(event.get(), EPOLLIN, &turn);
    base::MutexLock lock(turn.mutex_);
    while (!turn.over_) turn.end_.wait(turn.mutex_);
    if (turn.thrown_) std::rethrow_exception(turn.thrown_);
    return {};
  }

 private:
  LoopTurn(tcp::Device& device, int event, std::function<void()> body)
      : device_(device), event_(event), body_(std::move(body)) {}

  void handleEvents(int /*events*/) override {
    std::exception_ptr thrown;
    try {
      device_.unregisterDescriptor(event_, this);
      body_();
    } catch (...) {
      thrown = std::current_exception();
    }
    base::MutexLock lock(mutex_);
    thrown_ = std::move(thrown);
    over_ = true;
    end_.notify_all();
  }

  tcp::Device& device_;
  const int event_;
  const std::function<void()> body_;
  base::Mutex mutex_;
  base::Condition end_;
  bool over_ FFDL_GUARDED_BY(mutex_) = false;
  std::exception_ptr thrown_ FFDL_GUARDED_BY(mutex_);
};

// A pair of gloo whose connection was made, and proved, elsewhere. By itself gloo takes the first
// process that connects to its port for the peer. An unexpected message then ends the process.
class ProvedPair final : public tcp::Pair {
 public:
  // Must run on the loop's thread: gloo listens from its constructor on, and the loop accepts
  // nothing before this constructor ends.
  ProvedPair(tcp::Context* context, tcp::Device* device, int rank)
      : tcp::Pair(context, device, rank, base::kLinkWaitMax) {
    const std::lock_guard<std::mutex> lock(m_);
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
    changeState(INITIALIZING);
  }

  // Adopts a connection, once. Takes ownership of `fd`.
  void adopt(int fd) {
    const std::lock_guard<std::mutex> lock(m_);
    fd_ = fd;
    ask_for_signs(fd);
    handleConnected();
  }

  // Ends the connection if the other host has acknowledged nothing for kPeerSilentMax: a cut link
  // does not report itself. A peer that reads nothing still acknowledges. Runs on the loop's
  // thread; a thread that closes the pair may wait for it with the mutex held, so this only tries
  // to lock.
  void end_if_silent() {
    const std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (!lock || fd_ < 0 || getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return;
    const milliseconds silent(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
    if (silent >= base::kPeerSilentMax) ::shutdown(fd_, SHUT_RDWR);
  }

 private:
  // Requests keep-alive probes, also on an idle connection. end_if_silent() ends it, not the
  // probes.
  static void ask_for_signs(int fd) {
    constexpr int kMany = 100;
    const auto set = [fd](int level, int name, int value) {
      ::setsockopt(fd, level, name, &value, sizeof value);  // a socket without it works too
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(IPPROTO_TCP, TCP_KEEPCNT, kMany);
  }
};

// Calls `body` regularly on the thread of gloo's loop, until it is destroyed.
class LoopTimer final : public tcp::Handler {
 public:
  // Returns null if no descriptor is left.
  static std::unique_ptr<LoopTimer> start(const std::shared_ptr<tcp::Device>& device,
                                          Duration interval, std::function<void()> body) {
    base::ForkPrivateFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const auto ns = std::chrono::nanoseconds(interval).count();
    FFDL_CHECK(ns > 0, "a timer that is set to zero never fires");
    const timespec every = {ns / 1'000'000'000, ns % 1'000'000'000};
    const itimerspec times = {every, every};
    if (!timer.valid() || timerfd_settime(timer.get(), 0, &times, nullptr) != 0) return nullptr;
    return std::unique_ptr<LoopTimer>(new LoopTimer(device, std::move(timer), std::move(body)));
  }
  // Waits until the body no longer runs. Only the mutex shows a sanitizer that gloo's loop is past
  // it.
  ~LoopTimer() override {
    device_->unregisterDescriptor(timer_.get(), this);
    const base::MutexLock lock(mutex_);
  }

 private:
  LoopTimer(std::shared_ptr<tcp::Device> device, base::ForkPrivateFd timer,
            std::function<void()> body)
      : device_(std::move(device)), timer_(std::move(timer)), body_(std::move(body)) {
    device_->registerDescriptor(timer_.get(), EPOLLIN, this);
  }

  void handleEvents(int /*events*/) override {
    const base::MutexLock lock(mutex_);
    uint64_t times = 0;
    if (::read(timer_.get(), &times, sizeof times) == sizeof times) body_();
  }

  base::Mutex mutex_;
  const std::shared_ptr<tcp::Device> device_;
  const base::ForkPrivateFd timer_;
  const std::function<void()> body_;
};

class GlooLinks final : public Links {
 public:
  GlooLinks(const World& world, std::shared_ptr<tcp::Device> device)
      : world_(world),
        device_(std::move(device)),
        context_(std::make_shared<tcp::Context>(device_, world.rank, world.size())),
        receipts_(context_->createUnboundBuffer(nullptr, 0)) {}
  ~GlooLinks() override;

  // Makes the pairs, without connections.
  Status open();
  // Adopts the connections, by rank; the one at this rank is not used.
  void adopt(std::vector<base::ForkPrivateFd> connections);
  // Begins to end links whose other host is silent, and waits of a process whose launcher has
  // ended. Errors: kExhausted (descriptors).
  Status watch();

  std::unique_ptr<Place> make_place(std::byte* data, uint64_t bytes) override;
  void stop() override;
  void close() override;
  void leave() override;

  // Records the buffer that is waited for, or null for none. Returns false if stopped.
  bool set_waiting(UnboundBuffer* buffer);
  // Finds the rank whose connection is broken, and returns the error.
  Status lost(std::string_view doing);
  std::string_view id_of(int rank) const { return world_.members[static_cast<size_t>(rank)].id; }
  const World& world() const { return world_; }
  // Tells the sender that a message of `tag` has arrived.
  Status confirm(int to, Tag tag);
  bool is_fork() const { return getpid() != pid_; }

 private:
  bool is_broken(int rank);
  ProvedPair& pair_of(int rank) { return static_cast<ProvedPair&>(*context_->getPair(rank)); }

  const World world_;
  std::shared_ptr<tcp::Device> device_;      // gloo shares it with its context
  std::shared_ptr<tcp::Context> context_;    // gloo shares it with its buffers
  std::unique_ptr<UnboundBuffer> receipts_;  // of no bytes
  const pid_t pid_ = getpid();
  std::unique_ptr<LoopTimer> watch_;  // checks the pairs

  base::Mutex mutex_;
  UnboundBuffer* waiting_ FFDL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ FFDL_GUARDED_BY(mutex_) = false;
};

class GlooPlace final : public Place {
 public:
  GlooPlace(GlooLinks& links, std::unique_ptr<UnboundBuffer> buffer)
      : links_(links), buffer_(std::move(buffer)) {}
  // Leaks the buffer in a fork, which has no thread of gloo that could release it.
  ~GlooPlace() override {
    if (links_.is_fork()) static_cast<void>(buffer_.release());
  }

  Status send(int to, Tag tag, uint64_t offset, uint64_t bytes) override {
    const base::HeldSignal pipe_signal(SIGPIPE);
    try {
      if (is_confirmed(tag)) {
        buffer_->recv(to, receipt_of(tag), 0, 0);
        ++receiving_;
      }
      buffer_->send(to, static_cast<uint64_t>(tag), offset, bytes);
      ++sending_;
      if (has_trailer(bytes)) {
        buffer_->send(to, trailer_of(tag), 0, 0);
        ++sending_;
      }
    } catch (const std::exception&) {
      return links_.lost(kOperate);
    }
    return {};
  }

  Status receive(int from, Tag tag, uint64_t offset, uint64_t bytes) override {
    const base::HeldSignal pipe_signal(SIGPIPE);
    try {
      buffer_->recv(from, static_cast<uint64_t>(tag), offset, bytes);
      ++receiving_;
      if (has_trailer(bytes)) {
        buffer_->recv(from, trailer_of(tag), 0, 0);
        ++receiving_;
      }
    } catch (const std::exception&) {
      return links_.lost(kOperate);
    }
    if (is_confirmed(tag)) owed_.push_back({from, tag});
    return {};
  }

  // Waits for sends last, when a receipt or another message has shown that they are over. gloo
  // reports a broken connection to a receiver, but not always to a sender.
  Status wait(Time deadline) override {
    for (; receiving_ > 0; --receiving_) {
      FFDL_RETURN_IF_ERROR(wait_one(deadline, [this](milliseconds patience) {
        return buffer_->waitRecv(nullptr, patience);
      }));
    }
    for (const Owed& owed : owed_) FFDL_RETURN_IF_ERROR(links_.confirm(owed.to, owed.tag));
    owed_.clear();
    for (; sending_ > 0; --sending_) {
      FFDL_RETURN_IF_ERROR(wait_one(deadline, [this](milliseconds patience) {
        return buffer_->waitSend(nullptr, patience);
      }));
    }
    return {};
  }

 private:
  struct Owed {
    int to;
    Tag tag;
  };

  template <class Wait>
  Status wait_one(Time deadline, Wait&& wait) {
    bool goes_on = links_.set_waiting(buffer_.get());
    bool failed = false;
    try {
      goes_on = goes_on && wait(left_until(deadline));
    } catch (const std::exception&) {
      failed = true;  // timed out, or a connection that this waits for is broken
    }
    goes_on = links_.set_waiting(nullptr) && goes_on;
    if (!goes_on) {
      FFDL_RETURN_IF_ERROR(check_launcher(links_.world()));
      return make_error(StatusCode::kCancelled, "{}: stopped", kOperate);
    }
    if (!failed) return {};
    if (std::chrono::steady_clock::now() < deadline) return links_.lost(kOperate);
    return make_error(StatusCode::kTimeout,
                      "{} at rank {}: the deadline passed before all data had been received and "
                      "sent; wait longer",
                      kOperate, links_.world().rank);
  }

  GlooLinks& links_;
  std::unique_ptr<UnboundBuffer> buffer_;
  uint64_t sending_ = 0;
  uint64_t receiving_ = 0;
  std::vector<Owed> owed_;  // receipts for received messages
};

Status GlooLinks::open() {
  return LoopTurn::run(*device_, [this] {
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (rank == world_.rank) continue;
      context_->getPair(rank) = std::make_unique<ProvedPair>(context_.get(), device_.get(), rank);
    }
  });
}

void GlooLinks::adopt(std::vector<base::ForkPrivateFd> connections) {
  FFDL_CHECK(connections.size() == world_.members.size(), "a meeting gives one to each member");
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    base::ForkPrivateFd& connection = connections[static_cast<size_t>(rank)];
    FFDL_CHECK(connection.valid(), "a meeting ends well with a connection to each member");
    pair_of(rank).adopt(connection.release());
  }
}

Status GlooLinks::watch() {
  watch_ = LoopTimer::start(device_, Duration(base::kPeerSilentMax) / 20, [this] {
    if (base::launcher_watch().has_ended()) stop();
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (rank != world_.rank) pair_of(rank).end_if_silent();
    }
  });
  if (watch_ != nullptr) return {};
  return base::system_failure("connect", errno, "try again");
}

// Leaks in a fork: it has no thread of gloo, and its descriptors are the parent's.
GlooLinks::~GlooLinks() {
  if (!is_fork()) {
    watch_.reset();
    return;
  }
  // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): on purpose
  static_cast<void>(watch_.release());
  static_cast<void>(receipts_.release());
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(context_).release());
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(device_).release());
}  // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

std::unique_ptr<Place> GlooLinks::make_place(std::byte* data, uint64_t bytes) {
  return std::make_unique<GlooPlace>(*this, context_->createUnboundBuffer(data, bytes));
}

// Relies on gloo to remember an abort that comes before the wait.
bool GlooLinks::set_waiting(UnboundBuffer* buffer) {
  base::MutexLock lock(mutex_);
  waiting_ = buffer;
  return !stopped_;
}

void GlooLinks::stop() {
  base::MutexLock lock(mutex_);
  stopped_ = true;
  if (waiting_ == nullptr) return;
  waiting_->abortWaitRecv();
  waiting_->abortWaitSend();
}

void GlooLinks::close() {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank != world_.rank) context_->getPair(rank)->close();
  }
}

void GlooLinks::leave() {
  if (is_fork()) return;
  watch_.reset();
  for (int rank = 0; rank < world_.size(); ++rank) context_->getPair(rank).reset();
}

Status GlooLinks::confirm(int to, Tag tag) {
  const base::HeldSignal pipe_signal(SIGPIPE);
  try {
    receipts_->send(to, receipt_of(tag), 0, 0);
  } catch (const std::exception&) {
    return lost(kOperate);
  }
  return {};
}

// Returns whether nothing can be posted. gloo reports that a connection is broken, but not which.
bool GlooLinks::is_broken(int rank) {
  const base::HeldSignal pipe_signal(SIGPIPE);
  const auto nowhere = context_->createUnboundBuffer(nullptr, 0);
  try {
    nowhere->recv(rank, base::kLinkProbeTag, 0, 0);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

Status GlooLinks::lost(std::string_view doing) {
  int rank = 0;
  while (rank + 1 < world_.size() && (rank == world_.rank || !is_broken(rank))) ++rank;
  return make_error(StatusCode::kPeerLost,
                    "{} at rank {}: rank {} '{}' died, failed or left; form a new world", doing,
                    world_.rank, rank, id_of(rank));
}

// Converts an exception of gloo. Its text contains the errno text if it names a limit. gloo's
// thread is one of the standard library.
Status failure_of(std::string_view doing, const std::exception& failure) {
  if (const int limit = base::limit_named_in(failure.what()); limit != 0) {
    return base::system_failure(doing, limit, "");
  }
  const bool is_thread = dynamic_cast<const std::system_error*>(&failure) != nullptr;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  if (is_memory) return base::system_failure(doing, ENOMEM, "");
  if (is_thread) {
    return make_error(StatusCode::kExhausted,
                      "{}: {}; raise 'ulimit -u', 'ulimit -v' or the container's limit of "
                      "processes",
                      doing, failure.what());
  }
  return make_error(StatusCode::kUnavailable, "{}: {}; try again", doing, failure.what());
}

Result<std::shared_ptr<tcp::Device>> make_device(const std::string& address) {
  const base::HeldSignal pipe_signal(SIGPIPE);  // for its thread
  try {
    return std::static_pointer_cast<tcp::Device>(tcp::CreateDevice(tcp::attr(address.c_str())));
  } catch (const std::exception& failure) {
    return failure_of(fmt::format("listen at '{}'", address), failure);
  }
}

}  // namespace

Status have_gloo() { return {}; }

Result<MetLinks> connect_gloo_links(const World& world, Store& store, Time deadline,
                                    const std::string& address,
                                    const CommunicatorOptions& options) {
  // Comes first: gloo does not check its name lookup, and leaks memory if it cannot bind.
  FFDL_ASSIGN_OR_RETURN(LinkMeeting meeting, LinkMeeting::listen(world, address, options));
  FFDL_ASSIGN_OR_RETURN(std::shared_ptr<tcp::Device> device, make_device(address));
  auto links = std::make_unique<GlooLinks>(world, std::move(device));
  FFDL_ASSIGN_OR_RETURN(const Told told, exchange_records(world, store, kTopic,
                                                          to_record(meeting.record()), deadline));
  FFDL_ASSIGN_OR_RETURN(std::vector<base::ForkPrivateFd> connections,
                        meeting.connect(told.records, deadline, options));
  const base::HeldSignal pipe_signal(SIGPIPE);
  try {
    FFDL_RETURN_IF_ERROR(links->open());
    links->adopt(std::move(connections));
    FFDL_RETURN_IF_ERROR(links->watch());
  } catch (const std::exception& failure) {
    return failure_of(fmt::format("connect {} as rank {}", name_of(world), world.rank), failure);
  }
  return MetLinks{.links = std::move(links), .record = told.lease};
}

}  // namespace ffdl::comm
