#include "store/etcd_http.h"

#include <fcntl.h>
#ifndef FFDL_WITH_HTTPLIB_FLAGS
#error "its types would not be those of the library: src/store/CMakeLists.txt gives the flags"
#endif
#include <httplib.h>

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/no_pipe_signal.h"
#include "net/tune.h"

namespace ffdl::store {

using base::make_error;

namespace {

bool was_sent(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
    case httplib::Error::BindIPAddress:
    case httplib::Error::Write:  // the end of the request at least did not go out
      return false;
    default:
      return true;
  }
}

}  // namespace

struct EtcdHttp::Client {
  explicit Client(const net::Address& address) : http(address.host, address.port) {}
  httplib::Client http;
};

// One request: what came back, and who takes it.
struct EtcdHttp::Exchange {
  int status = 0;
  std::function<bool(std::string_view)> take;
};

EtcdHttp::EtcdHttp(const net::Address& address, Runtime& runtime)
    : address_(address), runtime_(runtime), client_(std::make_unique<Client>(address)) {
  client_->http.set_keep_alive(true);
  client_->http.set_socket_options([](int fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    net::tune(fd);
  });
}

EtcdHttp::~EtcdHttp() = default;

void EtcdHttp::set_patience(Duration to_connect, Duration to_wait) {
  // The library takes 0 for no limit.
  const auto at_least = [](Duration time) {
    return std::max<Duration>(time, std::chrono::milliseconds(1));
  };
  client_->http.set_connection_timeout(at_least(to_connect));
  client_->http.set_write_timeout(at_least(to_wait));
  client_->http.set_read_timeout(at_least(to_wait));
}

Status EtcdHttp::send(const std::string& path, const std::string& body, Exchange& exchange) {
  httplib::Request request;
  request.method = body.empty() ? "GET" : "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  // A watch of a member that has lost the others must end.
  request.set_header("Grpc-Metadata-hasleader", "true");
  request.response_handler = [&](const httplib::Response& response) {
    exchange.status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* data, size_t bytes, uint64_t, uint64_t) {
    return exchange.take({data, bytes});
  };
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const base::NoPipeSignal no_signal;
  if (client_->http.send(request, response, error)) return {};
  return make_error(was_sent(error) ? StatusCode::kTimeout : StatusCode::kUnavailable,
                    "speak to '{}': {}; is etcd alive there", address_.text(),
                    httplib::to_string(error));
}

Result<EtcdHttp::Answer> EtcdHttp::ask(const std::string& path, const std::string& body,
                                       Time deadline) {
  const Duration left = deadline - runtime_.now();
  set_patience(std::min<Duration>(left, base::kEtcdConnectMax), left);
  Answer answer;
  bool is_too_long = false;
  Exchange exchange;
  exchange.take = [&](std::string_view bytes) {
    is_too_long = answer.body.size() + bytes.size() > base::kEtcdAnswerMax;
    if (is_too_long || runtime_.now() > deadline) return false;
    answer.body.append(bytes);
    return true;
  };
  const Status sent = send(path, body, exchange);
  answer.status = exchange.status;
  if (is_too_long) {
    return make_error(StatusCode::kExhausted,
                      "speak to '{}': it answers more than {} bytes; ask for less, or remove keys",
                      address_.text(), base::kEtcdAnswerMax);
  }
  // etcd ends failures with a trailer, at which the library stumbles: what came before is whole, or
  // whoever reads it finds out.
  if (sent.ok() || (answer.status > 200 && !answer.body.empty())) return answer;
  return sent;
}

Status EtcdHttp::stream(const std::string& path, const std::string& body, const Take& take) {
  set_patience(base::kEtcdConnectMax, base::kEtcdQuietMax);
  Exchange exchange;
  exchange.take = take;
  Status sent = send(path, body, exchange);
  if (sent.code() == StatusCode::kUnavailable) return sent;
  return make_error(StatusCode::kPeerLost, "read a stream of '{}': it ended, after status {}",
                    address_.text(), exchange.status);
}

void EtcdHttp::stop() { client_->http.stop(); }

}  // namespace ffdl::store
