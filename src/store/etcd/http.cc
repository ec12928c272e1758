#include "store/etcd/http.h"

#include <fcntl.h>
#include <unistd.h>
#ifndef FFDL_WITH_HTTPLIB_FLAGS
#error "its types would not be those of the library: src/store/CMakeLists.txt gives the flags"
#endif
#include <httplib.h>

#include <algorithm>

#include "base/errors.h"
#include "base/held_signal.h"
#include "base/limits.h"
#include "net/certificate_files.h"
#include "net/tune.h"

namespace ffdl::store {

using base::make_error;

namespace {

bool was_sent(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
    case httplib::Error::BindIPAddress:
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
    case httplib::Error::Write:  // at least the end of the request did not go out
      return false;
    default:
      return true;
  }
}

}  // namespace

struct EtcdHttp::Client {
  // Returns the path of a file, or nothing if there is none: a user needs no certificate.
  static std::string file_in(const std::string& folder, const char* name) {
    const std::string path = folder + "/" + name;
    return ::access(path.c_str(), F_OK) == 0 ? path : "";
  }
  explicit Client(const net::Address& address) : http(address.host, address.port) {}
  Client(const net::Address& address, const std::string& certificates)
      : http("https://" + address.text(), file_in(certificates, net::kClientFile),
             file_in(certificates, net::kClientKeyFile)) {
    http.set_ca_cert_path(certificates + "/" + net::kAuthorityFile);
    http.enable_server_certificate_verification(true);
  }
  httplib::Client http;
};

// One request: the status that came back, and the receiver of the body.
struct EtcdHttp::Exchange {
  int status = 0;
  std::function<bool(std::string_view)> take;
};

EtcdHttp::EtcdHttp(const net::Address& address, Runtime& runtime, const std::string& certificates)
    : address_(address),
      certificates_(certificates),
      runtime_(runtime),
      client_(certificates.empty() ? std::make_unique<Client>(address)
                                   : std::make_unique<Client>(address, certificates)) {
  client_->http.set_keep_alive(true);
  client_->http.set_socket_options([](int fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    net::tune(fd);
  });
}

EtcdHttp::~EtcdHttp() = default;

void EtcdHttp::set_patience(Duration to_connect, Duration to_wait) {
  // The library treats 0 as no limit.
  const auto at_least = [](Duration time) {
    return std::max<Duration>(time, std::chrono::milliseconds(1));
  };
  client_->http.set_connection_timeout(at_least(to_connect));
  client_->http.set_write_timeout(at_least(to_wait));
  client_->http.set_read_timeout(at_least(to_wait));
}

Status EtcdHttp::send(const std::string& path, const std::string& body, Exchange& exchange) {
  if (!client_->http.is_valid()) {
    return make_error(
        StatusCode::kUnavailable,
        "call '{}': OpenSSL cannot use '{}' and '{}' in '{}'; check that they are PEM, "
        "and belong together",
        address_.text(), net::kClientFile, net::kClientKeyFile, certificates_);
  }
  httplib::Request request;
  request.method = body.empty() ? "GET" : "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  if (!token_.empty()) request.set_header("Authorization", token_);
  // Ends a watch at a member that has lost the others.
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
  const base::HeldSignal pipe_signal(SIGPIPE);
  if (client_->http.send(request, response, error)) return {};
  return make_error(was_sent(error) ? StatusCode::kTimeout : StatusCode::kUnavailable,
                    "call '{}': {}; is etcd alive there", address_.text(),
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
                      "call '{}': the answer has more than {} bytes; ask for less, or remove keys",
                      address_.text(), base::kEtcdAnswerMax);
  }
  // etcd ends failures with a trailer, at which the library fails. What came before is whole, or
  // its reader finds the error.
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
