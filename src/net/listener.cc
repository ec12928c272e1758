#include "net/listener.h"

#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/resource_limit.h"
#include "net/keep_private.h"
#include "net/resolve.h"

namespace ffdl::net {

using asio::ip::tcp;

Result<std::shared_ptr<Listener>> Listener::open(Loop& loop, const Address& address) {
  asio::error_code error;
  const Endpoints found = resolve(loop.context(), address, error);
  if (error) {
    return base::invalid_argument("listen on '{}': {}; name an address of this machine",
                                  address.text(), error.message());
  }
  const Endpoints usable = to_listen_on(address, found);
  if (usable.empty()) {
    return base::invalid_argument(
        "listen on '{}': on this machine the name resolves only to {}, which other machines cannot "
        "reach; give a numeric address of this machine, or 127.0.0.1 to serve only this machine",
        address.text(), found.front().address().to_string());
  }
  Status first;
  for (const tcp::endpoint& endpoint : usable) {
    auto listener = std::make_shared<Listener>(loop);
    listener->address_ = address;
    Status bound = listener->bind(endpoint);
    if (bound.ok()) return listener;
    if (first.ok()) first = std::move(bound);
  }
  return first;
}

Status Listener::bind(const tcp::endpoint& endpoint) {
  asio::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  // A port whose last server died is free at once.
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!base::what_to_raise(error.value()).empty()) {
    return base::system_failure(fmt::format("listen on '{}'", address_.text()), error.value(), "");
  }
  if (error == asio::error::address_in_use) {
    return base::make_error(StatusCode::kUnavailable,
                            "listen on '{}': {}; choose another port, or 0 for any free one",
                            address_.text(), error.message());
  }
  if (error) {
    return base::invalid_argument("listen on '{}': {}; name an address of this machine",
                                  address_.text(), error.message());
  }
  kept_ = keep_private(acceptor_);
  if (!kept_.valid()) {
    return base::make_error(StatusCode::kExhausted,
                            "listen on '{}': more than {} descriptors of this library are open; "
                            "close some stores or servers",
                            address_.text(), base::kForkPrivateMax);
  }
  address_.port = acceptor_.local_endpoint(error).port();
  return {};
}

void Listener::start(OnAccept on_accept) {
  on_accept_ = std::move(on_accept);
  accept();
}

void Listener::accept() {
  acceptor_.async_accept(
      [self = shared_from_this()](const asio::error_code& error, tcp::socket socket) {
        if (!self->on_accept_) return;
        if (error) {  // no descriptors are left: others must be closed first
          self->report(error);
          self->retry_.start(std::chrono::steady_clock::now() + base::kStoreRetryMax,
                             [self] { self->accept(); });
          return;
        }
        self->has_failed_ = false;
        self->on_accept_(std::move(socket));
        self->accept();
      });
}

// Logs the first of several failures. The waiting clients see only that no answer comes.
void Listener::report(const asio::error_code& error) {
  if (std::exchange(has_failed_, true)) return;
  base::log_warning("{}", base::system_failure(fmt::format("accept at '{}'", address_.text()),
                                               error.value(), "it is tried again")
                              .message());
}

void Listener::close() {
  on_accept_ = nullptr;
  kept_.release();
  retry_.cancel();
  asio::error_code ignored;
  acceptor_.close(ignored);
}

}  // namespace ffdl::net
