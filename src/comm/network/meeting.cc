#include "comm/network/meeting.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"
#include "comm/network/greeting.h"
#include "comm/operation/world_key.h"
#include "net/base64.h"
#include "net/challenge.h"
#include "net/unproved_limit.h"

namespace ffdl::comm {
namespace {

using base::ForkPrivateFd;
using base::make_error;
using namespace std::chrono_literals;

// An IP address and port in the kernel's form.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::optional<Endpoint> endpoint_of(const std::string& address, uint16_t port) {
  Endpoint made;
  auto* const four = reinterpret_cast<sockaddr_in*>(&made.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&made.storage);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    made.bytes = sizeof *four;
  } else if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    made.bytes = sizeof *six;
  } else {
    return std::nullopt;
  }
  return made;
}

uint16_t port_of(const Endpoint& endpoint) {
  const bool four = endpoint.storage.ss_family == AF_INET;
  return ntohs(four ? reinterpret_cast<const sockaddr_in*>(&endpoint.storage)->sin_port
                    : reinterpret_cast<const sockaddr_in6*>(&endpoint.storage)->sin6_port);
}

bool is_exhausted(int error) { return !base::what_to_raise(error).empty(); }

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status no_descriptor(const World& world, int error) {
  return base::system_failure(fmt::format("connect {} as rank {}", name_of(world), world.rank),
                              error, "try again");
}

// A connection that is being proved, and the message that it waits for.
struct Greeting {
  ForkPrivateFd fd{};
  std::array<std::byte, sizeof(LinkProof)> came{};
  size_t size = 0;  // bytes of it
  LinkChallenge challenge{};
  LinkProof proof{};
};

// Receives a part of `message`. Returns true if it is whole, false if more is to come, and nullopt
// if the connection is broken.
template <class Message>
std::optional<bool> receive(Greeting& greeting, Message& message) {
  static_assert(sizeof message <= sizeof greeting.came);
  const size_t left = sizeof message - greeting.size;
  // Reads no further byte: the rest belongs to the links.
  const ssize_t got = recv(greeting.fd.get(), greeting.came.data() + greeting.size, left, 0);
  if (got < 0 && would_block(errno)) return false;
  if (got <= 0) return std::nullopt;
  greeting.size += static_cast<size_t>(got);
  if (greeting.size < sizeof message) return false;
  std::memcpy(&message, greeting.came.data(), sizeof message);
  greeting.size = 0;
  return true;
}

// Returns whether all of `message` was sent. A fresh connection without room for it is broken.
template <class Message>
bool send_whole(const ForkPrivateFd& fd, const Message& message) {
  const ssize_t sent = send(fd.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == ssize_t{sizeof message};
}

// Connects one member to all others, in one loop over all events.
class Round {
 public:
  Round(const World& world, const ForkPrivateFd& listener, const std::vector<LinkRecord>& records,
        std::string token, Time deadline, const CommunicatorOptions& options)
      : world_(world),
        listener_(listener),
        records_(records),
        greeter_(world, std::move(token)),
        deadline_(deadline),
        options_(options),
        visitors_max_(net::unproved_max()),
        links_(world.members.size()),
        has_met_(world.members.size()) {
    for (int rank = 0; rank < world.rank; ++rank) calls_.push_back({.rank = rank});
  }

  // Proves a connection to each member, and waits until each member has all of its own.
  Result<std::vector<ForkPrivateFd>> run();

 private:
  // A call from this member to one of a lower rank.
  struct Call {
    enum class Step { kIdle, kConnecting, kAwaitsChallenge, kAwaitsWelcome, kDone };
    int rank = 0;
    Step step = Step::kIdle;
    Time next{};                  // of the next try
    std::optional<Time> since{};  // when the first try was accepted
    int closed = 0;               // tries in a row that the other side closed without a message
    Greeting greeting{};
  };
  // A connection from a process that has not proved which member it is.
  struct Visitor {
    Time since{};
    Greeting greeting{};
  };

  bool is_complete() const;
  Status prove_all();
  Status meet_all();
  Status look();
  Status fail(Status why);
  Status begin_calls();
  Status begin(Call& call);
  Status wait();
  Status go_on(Call& call);
  Status check_connected(Call& call);
  Status answer(Call& call);
  Status take_visits(std::span<const pollfd> visitors, Time now);
  bool has_room(Time now) const;
  Status accept_some(Time now);
  void drop_oldest();
  Status take(Visitor& visitor);
  void take_link(int rank, ForkPrivateFd link);
  Status check_links(std::span<const pollfd> links) const;
  Status hear(std::span<const pollfd> links);
  Status poll_until(std::vector<pollfd>& polled, Time until) const;
  void drop(Call& call);
  Status closed(Call& call);
  int first_missing() const;
  Status unreachable(int rank, std::string_view why) const;
  Status refused(int rank, std::string_view why);
  Status late() const;
  Status unproved();

  const World& world_;
  const ForkPrivateFd& listener_;
  const std::vector<LinkRecord>& records_;
  const LinkGreeter greeter_;
  const Time deadline_;
  const CommunicatorOptions& options_;
  const size_t visitors_max_;
  std::vector<ForkPrivateFd> links_;                  // proved, by rank
  std::vector<bool> has_met_;                         // that member has all of its links; by rank
  Time progress_ = std::chrono::steady_clock::now();  // when the last link was proved
  Time next_look_ = progress_;
  Status looked_;     // the error with which interrupt_check ended the round
  int refused_ = -1;  // the rank that refused a connection
  std::vector<Call> calls_;
  std::list<Visitor> visitors_;  // the oldest first
  uint64_t strangers_ = 0;       // the number of dropped visitors
};

bool Round::is_complete() const {
  const auto valid = std::ranges::count_if(links_, &ForkPrivateFd::valid);
  return valid + 1 == std::ssize(links_);
}

int Round::first_missing() const {
  int rank = 0;
  while (rank == world_.rank || links_[static_cast<size_t>(rank)].valid()) ++rank;
  return rank;
}

Status Round::unreachable(int rank, std::string_view why) const {
  return make_error(StatusCode::kPeerLost,
                    "connect {} as rank {}: rank {} '{}' cannot be reached: {}; does it run, and "
                    "is its address one that this host can reach",
                    name_of(world_), world_.rank, rank,
                    world_.members[static_cast<size_t>(rank)].id, why);
}

Status Round::refused(int rank, std::string_view why) {
  refused_ = rank;
  const LinkRecord& record = records_[static_cast<size_t>(rank)];
  return unreachable(rank, fmt::format("{} port {}: {}", record.address, record.port, why));
}

Status Round::late() const {
  const int rank = first_missing();
  const std::string strangers =
      strangers_ == 0 ? std::string() : fmt::format(" (connections of others: {})", strangers_);
  const LinkRecord& record = records_[static_cast<size_t>(rank)];
  return make_error(StatusCode::kTimeout,
                    "connect {} as rank {}: rank {} '{}' has not connected by the deadline{}; does "
                    "it run, and is its address, {} port {}, one that this host can reach",
                    name_of(world_), world_.rank, rank,
                    world_.members[static_cast<size_t>(rank)].id, strangers, record.address,
                    record.port);
}

// The patience with silent connections is over. A process that accepts calls and does not prove
// itself is no member that runs, even if it closes some of them.
Status Round::unproved() {
  const Time now = std::chrono::steady_clock::now();
  for (const Call& call : calls_) {
    const bool is_accepted = call.step != Call::Step::kDone && call.since;
    if (!is_accepted || now < *call.since + base::kLinkSilenceMax / 2) continue;
    return refused(call.rank, fmt::format("the process that listens there accepted a connection, "
                                          "but did not prove within {} s that it is that member",
                                          base::kLinkSilenceMax / 1s));
  }
  return late();
}

Result<std::vector<ForkPrivateFd>> Round::run() {
  FFDL_RETURN_IF_ERROR(fail(prove_all()));
  FFDL_RETURN_IF_ERROR(fail(meet_all()));
  return std::move(links_);
}

Status Round::prove_all() {
  while (!is_complete()) {
    FFDL_RETURN_IF_ERROR(look());
    FFDL_RETURN_IF_ERROR(begin_calls());
    FFDL_RETURN_IF_ERROR(wait());
    const Time now = std::chrono::steady_clock::now();
    if (is_complete()) break;
    if (now >= progress_ + base::kLinkSilenceMax) return unproved();
    if (now >= deadline_) return late();
  }
  return {};
}

// Sends on each link that this member has all of its links, and waits for the same. Members that
// cannot connect stop earlier, and end their links.
Status Round::meet_all() {
  constexpr std::byte kComplete{1};
  const Time last = std::min<Time>(deadline_, progress_ + 2 * base::kLinkSilenceMax);
  has_met_[static_cast<size_t>(world_.rank)] = true;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank || send_whole(links_[static_cast<size_t>(rank)], kComplete)) continue;
    return unreachable(rank, "it has closed its connection");
  }
  while (!std::ranges::all_of(has_met_, std::identity())) {
    FFDL_RETURN_IF_ERROR(look());
    std::vector<pollfd> polled;
    for (size_t rank = 0; rank < links_.size(); ++rank) {
      polled.push_back({has_met_[rank] ? -1 : links_[rank].get(), POLLIN, 0});
    }
    FFDL_RETURN_IF_ERROR(poll_until(polled, last));
    FFDL_RETURN_IF_ERROR(hear(polled));
    if (std::chrono::steady_clock::now() < last) continue;
    for (size_t rank = 0; rank < links_.size(); ++rank) {
      if (!has_met_[rank]) links_[rank].close();
    }
    if (!is_complete()) return late();
  }
  return {};
}

Status Round::hear(std::span<const pollfd> links) {
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank].revents == 0) continue;
    std::byte word{};
    const ssize_t got = recv(links[rank].fd, &word, sizeof word, 0);
    if (got < 0 && would_block(errno)) continue;
    if (got <= 0) return unreachable(static_cast<int>(rank), "it has closed its connection");
    has_met_[rank] = true;
  }
  return {};
}

Status Round::look() {
  const Time now = std::chrono::steady_clock::now();
  if (!options_.interrupt_check || now < next_look_) return {};
  next_look_ = now + base::kStandingInterval;
  looked_ = options_.interrupt_check();
  return looked_;
}

// Reports the members that it could not connect to: the one that refused, and those that it waited
// long enough for. A member's end of a link is no evidence against that member.
Status Round::fail(Status why) {
  if (why.ok() || !looked_.ok() || !options_.unreached) return why;
  const bool is_late = std::chrono::steady_clock::now() >= progress_ + base::kLinkSilenceMax / 2;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const bool is_missing = rank != world_.rank && !links_[static_cast<size_t>(rank)].valid();
    if (is_missing && (is_late || rank == refused_)) options_.unreached(rank);
  }
  return why;
}

Status Round::begin_calls() {
  const Time now = std::chrono::steady_clock::now();
  for (Call& call : calls_) {
    if (call.step == Call::Step::kIdle && call.next <= now) FFDL_RETURN_IF_ERROR(begin(call));
  }
  return {};
}

Status Round::begin(Call& call) {
  const LinkRecord& record = records_[static_cast<size_t>(call.rank)];
  std::optional<Endpoint> to = endpoint_of(record.address, record.port);
  if (!to) return refused(call.rank, fmt::format("'{}' is not an IP address", record.address));
  const int made = socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return no_descriptor(world_, errno);
  call.greeting = {.fd = ForkPrivateFd(made)};
  if (!call.greeting.fd.valid()) return no_descriptor(world_, EMFILE);
  call.step = Call::Step::kConnecting;
  if (::connect(made, to->get(), to->bytes) == 0 || errno == EINPROGRESS) return {};
  return refused(call.rank, base::errno_text(errno));
}

void Round::drop(Call& call) {
  call.greeting = {};
  call.step = Call::Step::kIdle;
  call.next = deadline_in(base::kLinkRetryInterval);
}

Status Round::check_connected(Call& call) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(call.greeting.fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return refused(call.rank, base::errno_text(error));
  call.step = Call::Step::kAwaitsChallenge;
  if (!call.since) call.since = std::chrono::steady_clock::now();
  return {};
}

Status Round::answer(Call& call) {
  call.closed = 0;
  FFDL_ASSIGN_OR_RETURN(call.greeting.proof, greeter_.answer(call.greeting.challenge, call.rank));
  if (send_whole(call.greeting.fd, call.greeting.proof)) {
    call.step = Call::Step::kAwaitsWelcome;
  } else {
    drop(call);
  }
  return {};
}

// Counts a connection that the other side closed before its challenge. If the member is gone, the
// next try finds no listener. Otherwise another program has the port.
Status Round::closed(Call& call) {
  if (++call.closed >= base::kLinkClosedMax) {
    return refused(call.rank,
                   fmt::format("the process that listens there has closed {} connections in a row",
                               call.closed));
  }
  drop(call);
  return {};
}

// Tries again if a connection ends after its challenge and before its proof. It may have been one
// of many, for which the member had no room.
Status Round::go_on(Call& call) {
  if (call.step == Call::Step::kConnecting) return check_connected(call);
  if (call.step == Call::Step::kAwaitsChallenge) {
    const std::optional<bool> whole = receive(call.greeting, call.greeting.challenge);
    if (whole == true) return answer(call);
    return whole ? Status() : closed(call);
  }
  LinkWelcome welcome{};
  const std::optional<bool> whole = receive(call.greeting, welcome);
  if (!whole) drop(call);
  if (whole != true) return {};
  FFDL_RETURN_IF_ERROR(greeter_.check(call.greeting.challenge, call.greeting.proof, welcome));
  take_link(call.rank, std::move(call.greeting.fd));
  call.step = Call::Step::kDone;
  return {};
}

void Round::take_link(int rank, ForkPrivateFd link) {
  links_[static_cast<size_t>(rank)] = std::move(link);
  progress_ = std::chrono::steady_clock::now();
}

bool Round::has_room(Time now) const {
  return visitors_.size() < visitors_max_ || visitors_.front().since + base::kLinkVisitMin <= now;
}

void Round::drop_oldest() {
  visitors_.pop_front();
  ++strangers_;
}

// Accepts few at a time, so that proofs and the deadline are checked however fast others connect.
Status Round::accept_some(Time now) {
  for (int accepted = 0; accepted < base::kLinkAcceptsMax && has_room(now); ++accepted) {
    const int made = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = made < 0 ? errno : 0;
    Visitor visitor = {.since = now, .greeting = {.fd = ForkPrivateFd(made)}};
    if (error == 0 && !visitor.greeting.fd.valid()) error = EMFILE;
    if (is_exhausted(error) && visitors_.empty()) return no_descriptor(world_, error);
    if (is_exhausted(error)) drop_oldest();
    if (error != 0) return {};  // none waits, or it has gone
    FFDL_ASSIGN_OR_RETURN(visitor.greeting.challenge, LinkGreeter::challenge());
    if (!send_whole(visitor.greeting.fd, visitor.greeting.challenge)) continue;
    if (visitors_.size() >= visitors_max_) drop_oldest();
    visitors_.push_back(std::move(visitor));
  }
  return {};
}

Status Round::take_visits(std::span<const pollfd> visitors, Time now) {
  size_t at = 0;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    if (visitors[at++].revents != 0) FFDL_RETURN_IF_ERROR(take(*visitor));
    const bool valid = visitor->greeting.fd.valid();
    const bool late = valid && visitor->since + base::kLinkVisitMax <= now;
    strangers_ += late ? 1 : 0;
    visitor = late || !valid ? visitors_.erase(visitor) : ++visitor;
  }
  return {};
}

// Replaces the link of a member that calls again: it has dropped its first connection.
Status Round::take(Visitor& visitor) {
  Greeting& greeting = visitor.greeting;
  const std::optional<bool> whole = receive(greeting, greeting.proof);
  if (whole == false) return {};
  const Result<int> rank =
      whole ? greeter_.check(greeting.challenge, greeting.proof)
            : Result<int>(Status(StatusCode::kPeerLost, "it has closed its connection"));
  if (!rank.ok()) {
    greeting.fd.close();
    ++strangers_;
  } else if (send_whole(greeting.fd, greeter_.welcome(greeting.challenge, greeting.proof))) {
    take_link(*rank, std::move(greeting.fd));
  }
  return {};
}

Status Round::check_links(std::span<const pollfd> links) const {
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (links[rank].revents == 0) continue;
    return unreachable(static_cast<int>(rank), "it has closed its connection");
  }
  return {};
}

Status Round::poll_until(std::vector<pollfd>& polled, Time until) const {
  if (options_.interrupt_check) until = std::min(until, next_look_);
  const Time now = std::chrono::steady_clock::now();
  const Duration left = std::clamp<Duration>(until - now, Duration::zero(), std::chrono::hours(1));
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  if (poll(polled.data(), polled.size(), static_cast<int>(patience)) >= 0) return {};
  if (errno == EINTR) {
    for (pollfd& one : polled) one.revents = 0;
    return {};
  }
  return base::system_failure(fmt::format("connect {}: poll", name_of(world_)), errno, "try again");
}

Status Round::wait() {
  std::vector<pollfd> polled;
  Time until = std::min<Time>(deadline_, progress_ + base::kLinkSilenceMax);
  // poll() skips negative descriptors.
  for (const ForkPrivateFd& link : links_) polled.push_back({link.get(), POLLRDHUP, 0});
  for (const Call& call : calls_) {
    const bool connecting = call.step == Call::Step::kConnecting;
    polled.push_back(
        {call.greeting.fd.get(), static_cast<int16_t>(connecting ? POLLOUT : POLLIN), 0});
    if (call.step == Call::Step::kIdle) until = std::min(until, call.next);
  }
  for (const Visitor& visitor : visitors_) {
    polled.push_back({visitor.greeting.fd.get(), POLLIN, 0});
    until = std::min(until, visitor.since + base::kLinkVisitMax);
  }
  const bool accepts = has_room(std::chrono::steady_clock::now());
  if (!accepts) until = std::min(until, visitors_.front().since + base::kLinkVisitMin);
  polled.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
  FFDL_RETURN_IF_ERROR(poll_until(polled, until));
  const std::span<const pollfd> all(polled);
  FFDL_RETURN_IF_ERROR(check_links(all.first(links_.size())));
  size_t at = links_.size();
  for (Call& call : calls_) {
    if (all[at++].revents != 0) FFDL_RETURN_IF_ERROR(go_on(call));
  }
  const Time now = std::chrono::steady_clock::now();
  FFDL_RETURN_IF_ERROR(take_visits(all.subspan(at), now));
  return all.back().revents != 0 ? accept_some(now) : Status();
}

}  // namespace

std::string to_record(const LinkRecord& record) {
  return fmt::format("{} {} {}", record.address, record.port, net::to_base64(record.seed));
}

Result<LinkRecord> link_record_of(std::string_view text) {
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first == std::string_view::npos ? first : first + 1);
  if (second != std::string_view::npos) {
    LinkRecord record;
    record.address = text.substr(0, first);
    const std::string_view port = text.substr(first + 1, second - first - 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), record.port);
    const auto seed = net::from_base64(text.substr(second + 1));
    if (error == std::errc() && end == port.data() + port.size() && record.port != 0 && seed &&
        seed->size() == net::kNonceBytes && endpoint_of(record.address, record.port)) {
      record.seed = *seed;
      return record;
    }
  }
  return make_error(StatusCode::kCorrupt,
                    "connect: a member sent no address, port and seed; does it run another "
                    "version of ffdl, or has something written to the store");
}

Result<LinkMeeting> LinkMeeting::listen(const World& world, const std::string& address,
                                        const CommunicatorOptions& options) {
  auto meeting = listen_at(world, address);
  for (int rank = 0; !meeting.ok() && options.unreached && rank < world.size(); ++rank) {
    if (rank != world.rank) options.unreached(rank);
  }
  return meeting;
}

Result<LinkMeeting> LinkMeeting::listen_at(const World& world, const std::string& address) {
  std::optional<Endpoint> at = endpoint_of(address, 0);
  if (!at) {
    return base::invalid_argument("listen at '{}': it is not an IP address; give one in digits",
                                  address);
  }
  const int made = socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = made < 0 ? errno : 0;
  if (is_exhausted(error)) return no_descriptor(world, error);
  ForkPrivateFd listener(made);
  if (error == 0 && !listener.valid()) return no_descriptor(world, EMFILE);
  if (error == 0 && bind(made, at->get(), at->bytes) != 0) error = errno;
  if (error != 0) {
    return base::invalid_argument(
        "listen at '{}': {}; give an address of this host that the others reach", address,
        base::errno_text(error));
  }
  if (::listen(made, SOMAXCONN) != 0 || getsockname(made, at->get(), &at->bytes) != 0) {
    return base::system_failure(fmt::format("listen at '{}'", address), errno, "try again");
  }
  FFDL_ASSIGN_OR_RETURN(std::string seed, net::make_nonce());
  return LinkMeeting(world, std::move(listener),
                     {.address = address, .port = port_of(*at), .seed = std::move(seed)});
}

Result<std::vector<ForkPrivateFd>> LinkMeeting::connect(const std::vector<std::string>& records,
                                                        Time deadline,
                                                        const CommunicatorOptions& options) {
  std::vector<LinkRecord> members;
  std::vector<std::string> seeds;
  for (const std::string& text : records) {
    FFDL_ASSIGN_OR_RETURN(members.emplace_back(), link_record_of(text));
    seeds.push_back(members.back().seed);
  }
  FFDL_CHECK(members.size() == world_.members.size(), "the store has one record per member");
  token_ = link_token(world_, seeds);
  Round round(world_, listener_, members, token_, deadline, options);
  auto links = round.run();
  listener_.close();
  return links;
}

}  // namespace ffdl::comm
