#include "net/connection.h"

#include <utility>

#include "base/errors.h"
#include "base/limits.h"
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
  if (error) return "nobody";
  return Address{endpoint.address().to_string(), endpoint.port()}.text();
}

}  // namespace

Connection::Connection(tcp::socket socket, Events events)
    : socket_(std::move(socket)), events_(std::move(events)), frames_(base::kStoreHelloMax) {}

std::shared_ptr<Connection> Connection::connect(Loop& loop, const Address& address, Events events) {
  auto made = std::make_shared<Connection>(tcp::socket(loop.context()), std::move(events));
  made->peer_ = address.text();
  asio::error_code error;
  const auto found = resolve(loop.context(), address, error);
  if (error || found.empty()) {
    loop.post([made, error] { made->fail(made->failure("find", error)); });
    return made;
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  made->socket_.open(endpoint.protocol(), error);
  if (error || !made->keep()) {
    loop.post([made] { made->fail(made->failure("open", asio::error::no_descriptors)); });
    return made;
  }
  made->socket_.async_connect(endpoint, [made](const asio::error_code& failed) {
    if (made->closed_) return;
    if (failed) return made->fail(made->failure("connect to", failed));
    made->events_.on_open();
    if (!made->closed_) made->read();
  });
  return made;
}

std::shared_ptr<Connection> Connection::accepted(tcp::socket socket, Events events) {
  auto made = std::make_shared<Connection>(std::move(socket), std::move(events));
  made->peer_ = name_of(made->socket_);
  asio::post(made->socket_.get_executor(), [made, kept = made->keep()] {
    if (made->closed_) return;
    if (!kept) return made->fail(made->failure("keep", asio::error::no_descriptors));
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
  while (!closed_) {
    auto frame = frames_.next();
    if (!frame.ok()) return fail(std::move(frame).status().with_context(peer_));
    if (!frame->has_value()) return;
    events_.on_frame(**frame);
  }
}

void Connection::send(std::string_view message) {
  if (closed_) return;
  append_frame(next_, message);
  if (writing_.size() + next_.size() > base::kUnsentMax) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->fail(base::make_error(StatusCode::kExhausted,
                                  "write to '{}': it does not read, {} bytes wait; is it stopped",
                                  self->peer_, self->writing_.size() + self->next_.size()));
    });
  }
  if (writing_.empty()) write();
}

void Connection::write() {
  writing_ = std::exchange(next_, {});
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](const asio::error_code& error, size_t) {
                      if (self->closed_) return;
                      if (error) return self->fail(self->failure("write to", error));
                      self->writing_.clear();
                      if (!self->next_.empty()) self->write();
                    });
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
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
  return base::make_error(StatusCode::kUnavailable, "{} '{}': {}; is its process alive", doing,
                          peer_, error == asio::error::eof ? "it closed" : error.message());
}

}  // namespace ffdl::net
