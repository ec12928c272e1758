#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "net/address.h"

namespace ffdl::store {

// A connection to one member of etcd, kept open between requests. It alone knows the HTTP library.
// Threads: one at a time, but stop() from any.
class EtcdHttp {
 public:
  EtcdHttp(const net::Address& address, Runtime& runtime);
  ~EtcdHttp();
  EtcdHttp(const EtcdHttp&) = delete;
  EtcdHttp& operator=(const EtcdHttp&) = delete;

  struct Answer {
    int status = 0;
    std::string body;
  };
  // Posts `body`; gets `path` where it is empty.
  // Blocks: until `deadline`.
  // Errors: kUnavailable (it was not sent), kTimeout (it may have been done, but the answer did not
  // come), kExhausted (the same, as the answer is too long).
  Result<Answer> ask(const std::string& path, const std::string& body, Time deadline);

  // Posts `body` and hands on what comes, until that returns false, the other side ends it, or
  // nothing came for base::kEtcdQuietMax. It ends with kUnavailable (it was not sent) or kPeerLost.
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
  Runtime& runtime_;
  const std::unique_ptr<Client> client_;
};

}  // namespace ffdl::store
