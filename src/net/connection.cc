#include "net/connection.h"

#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"
#include "net/keep_private.h"
#include "net/resolve.h"
#include "net/tune.h"

namespace ffdl::net {

using asio::ip::tcp;

namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

std::string name_of(const tcp::socket& socket) {
  asio::error_code error;
  const tcp::endpoint endpoint = socket.remote_endpoint(error);
  return error ? "an unknown address" : endpoint.address().to_string();
}

}  // namespace

Connection::Connection(tcp::socket socket, Events events, std::shared_ptr<size_t> total)
    : socket_(std::move(socket)),
      attempt_end_(socket_.get_executor()),
      events_(std::move(events)),
      frames_(base::kStoreHelloMax),
      total_(std::move(total)) {}

std::shared_ptr<Connection> Connection::connect(Loop& loop, const Address& address, Events events) {
  auto made = std::make_shared<Connection>(tcp::socket(loop.context()), std::move(events));
  made->peer_ = address.text();
  resolve_async(loop.context(), address,
                [made](const asio::error_code& error, const Endpoints& found) {
                  if (made->closed_) return;
                  if (error) return made->fail(made->failure("find", error));
                  made->endpoints_ = found;
                  made->try_next({});
                });
  return made;
}

std::shared_ptr<Connection> Connection::connect(Loop& loop, const Address& address,
                                                Endpoints endpoints, Events events) {
  auto made = std::make_shared<Connection>(tcp::socket(loop.context()), std::move(events));
  made->peer_ = address.text();
  made->endpoints_ = std::move(endpoints);
  loop.post([made] { made->try_next(asio::error::host_not_found); });
  return made;
}

// `failed` is the result of the endpoint before.
void Connection::try_next(const asio::error_code& failed) {
  if (closed_) return;
  if (attempts_ == endpoints_.size()) return fail(failure("connect to", failed));
  const tcp::endpoint endpoint = endpoints_[attempts_++];
  asio::error_code error;
  kept_.release();
  socket_.close(error);
  socket_.open(endpoint.protocol(), error);
  if (error == asio::error::address_family_not_supported) return try_next(error);
  if (error) return fail(failure("connect to", error));
  if (!keep()) return fail(too_many());
  const uint64_t attempt = attempts_;
  if (attempt < endpoints_.size()) {
    attempt_end_.expires_after(Duration(base::kStoreHandshakeMax) / endpoints_.size());
    attempt_end_.async_wait([self = shared_from_this(), attempt](const asio::error_code& ended) {
      if (!ended) self->give_up(attempt);
    });
  }
  socket_.async_connect(endpoint, [self = shared_from_this(), attempt](const auto& refused) {
    if (self->closed_ || attempt != self->attempts_) return;
    self->attempt_end_.cancel();
    if (refused) return self->try_next(refused);
    self->endpoints_.clear();
    self->attempts_ = 0;
    self->events_.on_open();
    if (!self->closed_) self->read();
  });
}

// Ends the attempt at an endpoint that does not answer, so that the others get their time.
void Connection::give_up(uint64_t attempt) {
  if (attempt == attempts_) try_next(asio::error::timed_out);
}

std::shared_ptr<Connection> Connection::accepted(tcp::socket socket, Events events,
                                                 std::shared_ptr<size_t> total) {
  auto made = std::make_shared<Connection>(std::move(socket), std::move(events), std::move(total));
  made->peer_ = name_of(made->socket_);
  asio::post(made->socket_.get_executor(), [made, kept = made->keep()] {
    if (made->closed_) return;
    if (!kept) return made->fail(made->too_many());
    made->read();
  });
  return made;
}

bool Connection::keep() {
  kept_ = keep_private(socket_);
  if (!kept_.valid()) return false;
  tune(socket_.native_handle());
  read_buffer_.resize(kReadBytes);
  return true;
}

void Connection::read() {
  socket_.async_read_some(asio::buffer(read_buffer_),
                          [self = shared_from_this()](const asio::error_code& error, size_t got) {
                            if (self->closed_) return;
                            if (error) return self->fail(self->failure("read from", error));
                            self->take(std::string_view(self->read_buffer_).substr(0, got));
                            if (!self->closed_) self->read();
                          });
}

void Connection::take(std::string_view bytes) {
  frames_.feed(bytes);
  while (!closed_ && !failing_) {
    auto frame = frames_.next();
    if (!frame.ok()) return fail(std::move(frame).status().with_context(peer_));
    if (!frame->has_value()) return;
    events_.on_frame(**frame);
  }
}

void Connection::send(std::string_view message) {
  if (closed_ || failing_) return;
  if (const size_t bytes = unsent() + message.size(); bytes > base::kUnsentMax) {
    return fail_soon(base::make_error(
        StatusCode::kExhausted,
        "write to '{}': it does not read, and {} bytes wait for it; is its process stopped", peer_,
        bytes));
  }
  append_frame(next_, message);
  if (writing_.empty()) write();
  count_unsent();
}

void Connection::count_unsent() {
  if (total_ == nullptr) return;
  *total_ += unsent() - counted_;
  counted_ = unsent();
}

void Connection::fail_soon(Status why) {
  if (closed_ || failing_) return;
  failing_ = true;
  std::string().swap(next_);  // data being written stays until the kernel releases it
  count_unsent();
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), why = std::move(why)] { self->fail(why); });
}

void Connection::write() {
  writing_ = std::exchange(next_, {});
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](const asio::error_code& error, size_t) {
                      if (self->closed_) return;
                      if (error) return self->fail(self->failure("write to", error));
                      self->writing_.clear();
                      if (!self->next_.empty()) self->write();
                      self->count_unsent();
                    });
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  count_unsent();
  attempt_end_.cancel();
  kept_.release();
  asio::error_code ignored;
  socket_.close(ignored);
}

void Connection::fail(const Status& why) {
  if (closed_) return;
  close();
  events_.on_closed(why);
}

Status Connection::failure(std::string_view doing, const asio::error_code& error) const {
  if (error.category() == asio::error::get_system_category() &&
      !base::what_to_raise(error.value()).empty()) {
    return base::system_failure(fmt::format("{} '{}'", doing, peer_), error.value(), "");
  }
  return base::make_error(StatusCode::kUnavailable, "{} '{}': {}; is its process alive", doing,
                          peer_, error == asio::error::eof ? "it closed" : error.message());
}

Status Connection::too_many() const {
  return base::make_error(StatusCode::kExhausted,
                          "connect to '{}': more than {} descriptors of this library are open; "
                          "close some stores or servers",
                          peer_, base::kForkPrivateMax);
}

}  // namespace ffdl::net
