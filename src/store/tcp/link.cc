#include "store/tcp/link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/challenge.h"
#include "store/tcp/folder_secret.h"
#include "store/tcp/server_folder.h"

namespace ffdl::store {

using base::make_error;

namespace {

int64_t in_ms(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

Status status_of(uint32_t code, const std::string& message) {
  if (code == 0 || code > static_cast<uint32_t>(StatusCode::kInternal)) {
    return make_error(StatusCode::kInternal, "call a store: its server answers with code {}", code);
  }
  return Status(static_cast<StatusCode>(code), message);
}

// Returns whether another attempt may find another server, a free lock, a free descriptor or a
// larger disk.
bool may_pass(const Status& why) {
  return why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kNotFound ||
         why.code() == StatusCode::kTimeout || why.code() == StatusCode::kConflict ||
         why.code() == StatusCode::kExhausted;
}

// Returns the code for an unreachable server: this process may lack what a connection needs.
StatusCode code_of_absence(const Status& last_reason) {
  return last_reason.code() == StatusCode::kExhausted ? StatusCode::kExhausted
                                                      : StatusCode::kUnavailable;
}

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::open(const Options& options, Runtime& runtime) {
  FFDL_ASSIGN_OR_RETURN(auto loop, net::Loop::start("ffdl-store-link"));
  auto link = std::unique_ptr<TcpLink>(new TcpLink(options, runtime, std::move(loop)));
  link->loop_->post([link = link.get()] { link->begin(); });
  const Time deadline = runtime.now() + options.operation_timeout;
  if (link->opened_->wait_until(deadline)) {
    FFDL_RETURN_IF_ERROR(link->refused_);
    return link;
  }
  link->loop_->stop();  // the link's members may be read now
  const bool differs = link->last_reason_.code() == StatusCode::kInvalidArgument;
  return make_error(differs ? StatusCode::kInvalidArgument : code_of_absence(link->last_reason_),
                    "open store '{}': no server after {} ms; start one, or wait longer{}{}",
                    link->where(), in_ms(options.operation_timeout),
                    link->last_reason_.ok() ? "" : ": ", link->last_reason_.message());
}

TcpLink::TcpLink(Options options, Runtime& runtime, std::unique_ptr<net::Loop> loop)
    : options_(std::move(options)),
      runtime_(runtime),
      process_(::getpid()),
      client_(runtime.random() | 1),
      opened_(runtime.make_event()),
      loop_(std::move(loop)),
      patience_(*loop_),
      retry_(*loop_) {}

TcpLink::~TcpLink() {
  loop_->stop();
  if (connection_ != nullptr) connection_->close();
}

std::string TcpLink::where() const {
  return options_.address.has_value() ? "tcp://" + options_.address->text()
                                      : "tcp://" + options_.folder;
}

// --- the connection ---

void TcpLink::begin() {
  const auto address = find_server();
  if (!address.ok()) return lose(address.status());
  auto secret = find_secret();
  if (!secret.ok()) return lose(secret.status());
  secret_ = std::move(secret).value();
  stage_ = Stage::kHello;
  patience_.start(runtime_.now() + base::kStoreHandshakeMax, [this] {
    lose(make_error(StatusCode::kTimeout, "connect to '{}': no answer after {} ms",
                    connection_->peer(), in_ms(base::kStoreHandshakeMax)));
  });
  connection_ =
      net::Connection::connect(*loop_, *address,
                               {.on_open = [this] { say_hello(); },
                                .on_frame = [this](std::string_view frame) { take(frame); },
                                .on_closed = [this](const Status& why) { lose(why); }});
}

void TcpLink::say_hello() {
  auto nonce = net::make_nonce();
  if (!nonce.ok()) return lose(nonce.status());
  our_nonce_ = std::move(nonce).value();
  wire::FromClient message;
  message.mutable_hello()->set_version(kProtocolVersion);
  message.mutable_hello()->set_client(client_);
  message.mutable_hello()->set_nonce(our_nonce_);
  send(message);
}

Result<net::Address> TcpLink::find_server() {
  if (options_.address.has_value()) return *options_.address;
  if (server_ != nullptr) return server_->address();
  auto address = read_server_address(options_.folder);
  ServerOptions serve{.folder = options_.folder,
                      .address = address.ok() ? *address : net::Address{"127.0.0.1", 0},
                      .secret = options_.secret,
                      .other_port = true,
                      .host = client_,
                      .makes_secret = true};
  auto started = Server::start(serve, runtime_);
  if (started.ok()) {
    server_ = std::move(started).value();
    return server_->address();
  }
  if (started.status().code() != StatusCode::kConflict) return std::move(started).status();
  return address;
}

// Relies on the server to write the secret before the address.
Result<std::string> TcpLink::find_secret() const {
  if (!options_.secret.empty() || options_.address.has_value()) return options_.secret;
  return read_folder_secret(options_.folder);
}

// Drops a server that has not proved itself: it may be any program. A folder may name the port of a
// server that has ended. So the address that it names next is tried.
void TcpLink::distrust(const Status& why) { lose(why, options_.address.has_value()); }

void TcpLink::lose(const Status& why, bool may_be_final) {
  if (connection_ != nullptr) connection_->close();
  connection_.reset();
  patience_.cancel();
  stage_ = Stage::kAway;
  last_reason_ = why;
  if (!was_ready_ && may_be_final && !may_pass(why)) return refuse(why);
  backoff_ = std::clamp<Duration>(2 * backoff_, base::kStoreRetryMin, base::kStoreRetryMax);
  retry_.start(runtime_.now() + backoff_, [this] { begin(); });
}

// Fails open() with the reason before the client is first ready; nothing more is tried.
void TcpLink::refuse(const Status& why) {
  refused_ = Status(why).with_context(fmt::format("open store '{}'", where()));
  opened_->set();
}

void TcpLink::take(std::string_view frame) {
  wire::FromServer message;
  const bool read = message.ParseFromArray(frame.data(), static_cast<int>(frame.size()));
  if (read && stage_ == Stage::kHello && message.has_refusal()) {
    take_early_refusal(message.refusal());
  } else if (read && message.has_refusal()) {
    lose(status_of(message.refusal().code(), message.refusal().message()));
  } else if (read && stage_ == Stage::kHello && message.has_challenge()) {
    take_challenge(message.challenge());
  } else if (read && stage_ == Stage::kProof && message.has_welcome()) {
    take_welcome(message.welcome());
  } else if (read && stage_ == Stage::kReady && message.has_reply()) {
    take_reply(message.reply());
  } else {
    lose(make_error(StatusCode::kUnavailable,
                    "connect to '{}': the server there is not a store of ffdl; check the address",
                    connection_->peer()));
  }
}

// Handles the refusal of a hello: of another version, or by a server without random bytes.
void TcpLink::take_early_refusal(const wire::Refusal& refusal) {
  const bool is_version = refusal.code() == static_cast<uint32_t>(StatusCode::kInvalidArgument);
  distrust(make_error(is_version ? StatusCode::kInvalidArgument : StatusCode::kUnavailable,
                      "connect to '{}': the server there has not proved itself, and refuses: {}",
                      connection_->peer(), refusal.message()));
}

void TcpLink::take_challenge(const wire::Challenge& challenge) {
  its_nonce_ = challenge.nonce();
  if (!net::same_mac(challenge.mac(), net::mac_of(secret_, {"server", our_nonce_, its_nonce_}))) {
    return distrust(base::invalid_argument(
        "connect to '{}': the server has another secret; pass the job's secret to both, and check "
        "the address",
        connection_->peer()));
  }
  stage_ = Stage::kProof;
  wire::FromClient message;
  message.mutable_proof()->set_mac(net::mac_of(secret_, {"client", our_nonce_, its_nonce_}));
  send(message);
}

void TcpLink::take_welcome(const wire::Welcome& welcome) {
  if (store_ != 0 && store_ != welcome.store()) {
    return lose(make_error(StatusCode::kUnavailable,
                           "connect to '{}': it serves another store than before; was its folder "
                           "removed",
                           connection_->peer()));
  }
  if (was_ready_) base::log_info("store '{}' is at {} again", where(), connection_->peer());
  store_ = welcome.store();
  stage_ = Stage::kReady;
  was_ready_ = true;
  backoff_ = Duration::zero();
  last_reason_ = {};
  patience_.cancel();
  connection_->set_frame_max(base::kStoreReplyMax);
  for (auto at = calls_.begin(); at != calls_.end();) {
    const auto next = std::next(at);
    Call& call = *at->second;
    const bool changes = Service::changes_the_store(call.request);
    if (call.given_up) {
      finish(at, Status(StatusCode::kTimeout, ""));
    } else if (call.sent && changes && !welcome.known()) {
      finish(at, make_error(StatusCode::kTimeout,
                            "{}: its server died, and the next one does not know whether the call "
                            "took effect; read again and decide",
                            call.what));
    } else {
      send(call);
    }
    at = next;
  }
  opened_->set();
}

void TcpLink::send(const wire::FromClient& message) {
  connection_->send(message.SerializeAsString());
}

// --- calls ---

Result<wire::Reply> TcpLink::call(wire::Request request, std::string_view what, Time deadline) {
  if (::getpid() != process_) {
    return make_error(StatusCode::kCancelled,
                      "{}: this process is a fork of the one that opened the store; open it in the "
                      "child",
                      what);
  }
  if (const size_t bytes = request.ByteSizeLong(); bytes > base::kStoreRequestMax) {
    return base::invalid_argument("{}: a request of {} bytes; the most is {}", what.substr(0, 64),
                                  bytes, base::kStoreRequestMax);
  }
  const bool waits = request.has_wait_change();
  const auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->what = what;
  call->done = runtime_.make_event();
  loop_->post([this, call] { submit(call); });
  bool done =
      call->done->wait_until(waits ? deadline : runtime_.now() + options_.operation_timeout);
  if (!done && waits) {
    loop_->post([this, call] { give_up(call); });
    done = call->done->wait_until(runtime_.now() + options_.operation_timeout);
  }
  if (!done) {
    loop_->post([this, call] { abandon(call); });
    call->done->wait_until(kNoDeadline);
  }
  if (call->outcome.ok()) return std::move(call->outcome);
  return Status(call->outcome.status());
}

void TcpLink::submit(const std::shared_ptr<Call>& call) {
  const uint64_t sequence = ++last_sequence_;
  call->request.set_sequence(sequence);
  const auto at = calls_.emplace(sequence, call).first;
  if (calls_.size() > base::kStoreCallsMax) {
    return finish(at, make_error(StatusCode::kExhausted,
                                 "{}: {} calls of this store wait for replies, which is the most; "
                                 "call it from fewer threads",
                                 call->what, base::kStoreCallsMax));
  }
  if (stage_ == Stage::kReady) send(*call);
}

void TcpLink::send(Call& call) {
  uint64_t answered_below = call.request.sequence();
  for (const auto& [sequence, other] : calls_) {
    if (!Service::changes_the_store(other->request)) continue;
    answered_below = std::min(answered_below, sequence);
    break;
  }
  call.request.set_answered_below(answered_below);
  call.sent = true;
  wire::FromClient message;
  *message.mutable_request() = call.request;
  send(message);
}

void TcpLink::take_reply(const wire::Reply& reply) {
  const auto at = calls_.find(reply.sequence());
  if (at == calls_.end()) return;  // its caller no longer waits
  if (reply.code() == 0) return finish(at, reply);
  finish(at, status_of(reply.code(), reply.message()));
}

void TcpLink::give_up(const std::shared_ptr<Call>& call) {
  const auto at = calls_.find(call->request.sequence());
  if (at == calls_.end()) return;
  call->given_up = true;
  if (stage_ != Stage::kReady) return finish(at, Status(StatusCode::kTimeout, ""));
  wire::FromClient message;
  message.set_give_up(call->request.sequence());
  send(message);
}

void TcpLink::abandon(const std::shared_ptr<Call>& call) {
  const auto at = calls_.find(call->request.sequence());
  if (at == calls_.end()) return;
  const bool unknown = call->sent && Service::changes_the_store(call->request);
  const bool timed_out = unknown || call->request.has_wait_change();
  finish(at, make_error(timed_out ? StatusCode::kTimeout : code_of_absence(last_reason_),
                        "{}: the store '{}' did not answer for {} ms{}; is its server alive{}{}",
                        call->what, where(), in_ms(options_.operation_timeout),
                        unknown ? ", and whether the call took effect is unknown" : "",
                        last_reason_.ok() ? "" : ": ", last_reason_.message()));
}

void TcpLink::finish(Calls::iterator at, Result<wire::Reply> outcome) {
  const std::shared_ptr<Call> call = at->second;
  calls_.erase(at);
  call->outcome = std::move(outcome);
  call->done->set();
}

}  // namespace ffdl::store
