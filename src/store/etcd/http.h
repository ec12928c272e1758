#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "net/address.h"

namespace ffdl::store {

// A connection to one member of etcd, kept open between requests. Only this class uses the HTTP
// library.
// Threads: one at a time, but stop() from any.
class EtcdHttp {
 public:
  // `certificates` is the folder of this client's certificates (certificate_files.h), for TLS. The
  // server must have one of the same authority, for its address. Empty: plain HTTP.
  EtcdHttp(const net::Address& address, Runtime& runtime, const std::string& certificates = {});
  ~EtcdHttp();
  EtcdHttp(const EtcdHttp&) = delete;
  EtcdHttp& operator=(const EtcdHttp&) = delete;

  // Sends this token with each request from now on; empty: none.
  void set_token(std::string token) { token_ = std::move(token); }

  struct Answer {
    int status = 0;
    std::string body;
  };
  // Posts `body`, or gets `path` if `body` is empty.
  // Blocks: until `deadline`.
  // Errors: kUnavailable (it was not sent: there is no server, or none with such a certificate),
  //         kTimeout (it may have been done, but the answer did not come), kExhausted (it may have
  //         been done, but the answer is too long).
  Result<Answer> ask(const std::string& path, const std::string& body, Time deadline);

  // Posts `body` and passes what arrives to `take`. Ends when `take` returns false, the other side
  // ends it, or nothing came for base::kEtcdQuietMax. Returns kUnavailable (it was not sent) or
  // kPeerLost.
  using Take = std::function<bool(std::string_view bytes)>;
  Status stream(const std::string& path, const std::string& body, const Take& take);
  // Ends a stream that has begun.
  void stop();

 private:
  struct Client;
  struct Exchange;
  Status send(const std::string& path, const std::string& body, Exchange& exchange);
  void set_patience(Duration to_connect, Duration to_wait);

  const net::Address address_;
  const std::string certificates_;  // their folder
  std::string token_;               // of a user
  Runtime& runtime_;
  const std::unique_ptr<Client> client_;
};

}  // namespace ffdl::store
