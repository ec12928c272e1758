#include <arpa/inet.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <vector>

#include "base/errors.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/no_pipe_signal.h"
#include "comm/links.h"
#include "comm/rendezvous.h"
#include "comm/request.h"

// The only file that knows gloo. It uses no more of it than connections and unbound buffers, and
// turns what gloo throws into a Status.
namespace ffdl::comm {
namespace {

using base::make_error;
using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr std::string_view kTopic = "gloo";

bool is_confirmed(Tag tag) { return tag != Tag::kFirst; }
// Once a message has begun to come gloo forgets who waits for it, and tells nobody where its
// connection breaks then. So an empty one follows, for which the receiver still waits.
bool has_trailer(uint64_t bytes) { return bytes > 0; }
uint64_t receipt_of(Tag tag) { return base::kLinkReceiptTag + static_cast<uint64_t>(tag); }
uint64_t trailer_of(Tag tag) { return base::kLinkTrailerTag + static_cast<uint64_t>(tag); }

// gloo waits in milliseconds from now; zero looks once.
milliseconds left_until(Time deadline) {
  const Time now = std::chrono::steady_clock::now();
  if (deadline <= now) return milliseconds(0);
  const Duration left = std::min<Duration>(deadline - now, base::kLinkWaitMax);
  return std::chrono::ceil<milliseconds>(left);
}

// A member tells one address per rank, in hexadecimal digits.
std::vector<char> address_for(int rank, std::string_view told) {
  size_t at = 0;
  for (int skipped = 0; skipped < rank; ++skipped) at = told.find(' ', at) + 1;
  std::vector<char> address;
  for (; at + 1 < told.size() && told[at] != ' '; at += 2) {
    unsigned byte = 0;
    std::from_chars(told.data() + at, told.data() + at + 2, byte, 16);
    address.push_back(static_cast<char>(byte));
  }
  return address;
}

class GlooLinks final : public Links {
 public:
  GlooLinks(const World& world, std::shared_ptr<gloo::transport::Device> device)
      : world_(world),
        device_(std::move(device)),
        context_(device_->createContext(world.rank, world.size())),
        receipts_(context_->createUnboundBuffer(nullptr, 0)) {}
  ~GlooLinks() override;

  // The addresses at which the others reach this rank, one per rank.
  std::string listen(milliseconds patience);
  Status connect(const std::vector<std::string>& addresses, Time deadline);

  // All others have read the addresses too: a connection alone does not tell.
  Status greet(Time deadline);

  std::unique_ptr<Place> make_place(std::byte* data, uint64_t bytes) override;
  void stop() override;
  void close() override;
  void leave() override;

  // Says that `buffer` is waited for, or with null that nothing is. False: stopped.
  bool set_waiting(UnboundBuffer* buffer);
  // The rank whose connection is broken, and that it is.
  Status lost(std::string_view doing);
  std::string_view id_of(int rank) const { return world_.members[static_cast<size_t>(rank)].id; }
  int rank() const { return world_.rank; }
  // Tells the sender that a message of `tag` has come.
  Status confirm(int to, Tag tag);
  bool is_fork() const { return getpid() != pid_; }

 private:
  bool is_broken(int rank);

  const World world_;
  std::shared_ptr<gloo::transport::Device> device_;    // gloo shares it with its context
  std::shared_ptr<gloo::transport::Context> context_;  // gloo shares it with its buffers
  std::unique_ptr<UnboundBuffer> receipts_;            // of no bytes
  const pid_t pid_ = getpid();

  base::Mutex mutex_;
  UnboundBuffer* waiting_ FFDL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ FFDL_GUARDED_BY(mutex_) = false;
};

class GlooPlace final : public Place {
 public:
  GlooPlace(GlooLinks& links, std::unique_ptr<UnboundBuffer> buffer)
      : links_(links), buffer_(std::move(buffer)) {}
  // A fork has no thread of gloo's that could let go of the buffer.
  ~GlooPlace() override {
    if (links_.is_fork()) static_cast<void>(buffer_.release());
  }

  Status send(int to, Tag tag, uint64_t offset, uint64_t bytes) override {
    const base::NoPipeSignal no_pipe_signal;
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
    const base::NoPipeSignal no_pipe_signal;
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

  // gloo tells a broken connection to whoever receives from it, not always to whoever sends: so
  // sending is waited for last, when a receipt or another message has shown that it is over.
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
    if (!goes_on) return make_error(StatusCode::kCancelled, "{}: stopped", kOperate);
    if (!failed) return {};
    if (std::chrono::steady_clock::now() < deadline) return links_.lost(kOperate);
    return make_error(StatusCode::kTimeout,
                      "{} at rank {}: the deadline passed before all data had come or gone; wait "
                      "longer",
                      kOperate, links_.rank());
  }

  GlooLinks& links_;
  std::unique_ptr<UnboundBuffer> buffer_;
  uint64_t sending_ = 0;
  uint64_t receiving_ = 0;
  std::vector<Owed> owed_;  // receipts, of what has been received
};

std::string GlooLinks::listen(milliseconds patience) {
  std::string addresses;
  // gloo waits five times as long for a connection.
  context_->setTimeout(std::max(patience / 5, milliseconds(1)));
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank != world_.rank) {
      for (const char byte : context_->createPair(rank)->address().bytes()) {
        addresses += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
    }
    addresses += ' ';
  }
  return addresses;
}

// In the order of ranks, as the others do: so somebody always finds his partner waiting.
Status GlooLinks::connect(const std::vector<std::string>& addresses, Time deadline) {
  const base::NoPipeSignal no_pipe_signal;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    try {
      context_->getPair(rank)->connect(
          address_for(world_.rank, addresses[static_cast<size_t>(rank)]));
    } catch (const std::exception& failure) {
      const bool late = std::chrono::steady_clock::now() >= deadline;
      return make_error(late ? StatusCode::kTimeout : StatusCode::kPeerLost,
                        "connect generation {} as rank {}: rank {} '{}' cannot be reached: {}; "
                        "does it run, and is its address one that this host can reach",
                        world_.generation, world_.rank, rank, id_of(rank), failure.what());
    }
  }
  return {};
}

Status GlooLinks::greet(Time deadline) {
  const std::unique_ptr<Place> greeting = make_place(nullptr, 0);
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    FFDL_RETURN_IF_ERROR(greeting->receive(rank, Tag::kFirst, 0, 0));
    FFDL_RETURN_IF_ERROR(greeting->send(rank, Tag::kFirst, 0, 0));
  }
  return greeting->wait(deadline);
}

// A fork has no thread of gloo's, and its descriptors are the parent's: nothing can be closed.
GlooLinks::~GlooLinks() {
  if (!is_fork()) return;
  // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): on purpose
  static_cast<void>(receipts_.release());
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(context_).release());
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(device_).release());
}  // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

std::unique_ptr<Place> GlooLinks::make_place(std::byte* data, uint64_t bytes) {
  return std::make_unique<GlooPlace>(*this, context_->createUnboundBuffer(data, bytes));
}

// gloo remembers it if the wait has not begun.
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
  for (int rank = 0; rank < world_.size(); ++rank) context_->getPair(rank).reset();
}

Status GlooLinks::confirm(int to, Tag tag) {
  const base::NoPipeSignal no_pipe_signal;
  try {
    receipts_->send(to, receipt_of(tag), 0, 0);
  } catch (const std::exception&) {
    return lost(kOperate);
  }
  return {};
}

// gloo tells only that something is broken, not whose connection: nothing can be posted on that.
bool GlooLinks::is_broken(int rank) {
  const base::NoPipeSignal no_pipe_signal;
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

// gloo looks names up, but not at whether that went well, and loses memory where it cannot bind.
Status check_address(const std::string& address) {
  sockaddr_in four = {};
  sockaddr_in6 six = {};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  const bool is_four = inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
  if (!is_four && inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) != 1) {
    return base::invalid_argument("listen at '{}': it is no IP address; give one in digits",
                                  address);
  }
  const int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const at =
      is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  const bool bound = fd >= 0 && bind(fd, at, is_four ? sizeof four : sizeof six) == 0;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (bound) return {};
  return base::invalid_argument(
      "listen at '{}': {}; give an address of this host that the others reach", address,
      base::errno_text(why));
}

Result<std::shared_ptr<gloo::transport::Device>> make_device(const std::string& address) {
  FFDL_RETURN_IF_ERROR(check_address(address));
  const base::NoPipeSignal no_pipe_signal;  // for its thread
  try {
    return gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
  } catch (const std::exception& failure) {
    return base::make_error(StatusCode::kUnavailable, "listen at '{}': {}; try again", address,
                            failure.what());
  }
}

}  // namespace

Status have_links() { return {}; }

Result<std::unique_ptr<Links>> connect_links(const World& world, Store& store, Time deadline,
                                             const std::string& address) {
  FFDL_ASSIGN_OR_RETURN(std::shared_ptr<gloo::transport::Device> device, make_device(address));
  auto links = std::make_unique<GlooLinks>(world, std::move(device));
  std::string listening;
  try {
    listening = links->listen(left_until(deadline));
  } catch (const std::exception& failure) {
    return base::make_error(StatusCode::kUnavailable, "listen at '{}': {}; try again", address,
                            failure.what());
  }
  FFDL_ASSIGN_OR_RETURN(const Told told,
                        exchange_records(world, store, kTopic, listening, deadline));
  FFDL_RETURN_IF_ERROR(links->connect(told.records, deadline));
  FFDL_RETURN_IF_ERROR(links->greet(deadline));
  FFDL_RETURN_IF_ERROR(store.end_lease(told.lease));  // who greets has read it
  return std::unique_ptr<Links>(std::move(links));
}

}  // namespace ffdl::comm
