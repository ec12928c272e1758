#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ffdl/runtime.h"
#include "ffdl/store.h"
#include "net/address.h"
#include "net/connection.h"
#include "net/loop.h"
#include "store/server.h"
#include "wire/store.pb.h"

namespace ffdl::store {

// A client's side of a store over TCP: keeps a connection to whoever serves it, carries calls over
// it, and repeats those that were not answered when it has another. The server knows a repeated
// call by its client and sequence. One that knows its store's folder looks there for the server's
// address, and becomes the server where there is none.
// Threads: call from any thread.
class TcpLink {
 public:
  struct Options {
    std::optional<net::Address> address;  // the server's; where there is none:
    std::string folder;                   // of the store, on this machine
    std::string secret;
    Duration operation_timeout{};
  };
  // Errors: see open_store.
  static Result<std::unique_ptr<TcpLink>> open(const Options& options, Runtime& runtime);
  ~TcpLink();

  // The reply, whose code is 0. `what` begins a message: "put 'k'".
  // Blocks: until the operation timeout; a wait_change until `deadline`, and while a server that is
  // there does not answer, for the operation timeout more.
  // Errors: the reply's; kUnavailable, kTimeout, kExhausted (too many calls at once), kCancelled.
  Result<wire::Reply> call(wire::Request request, std::string_view what,
                           Time deadline = kNoDeadline);

 private:
  // Shared between the thread that waits for it and the loop's.
  struct Call {
    wire::Request request;
    std::string what;
    std::unique_ptr<Event> done;  // after which the loop's thread leaves `outcome` alone
    Result<wire::Reply> outcome = wire::Reply();
    bool sent = false;      // to any server
    bool given_up = false;  // a wait_change whose deadline has passed
  };
  using Calls = std::map<uint64_t, std::shared_ptr<Call>>;  // by sequence
  enum class Stage { kAway, kHello, kProof, kReady };

  TcpLink(Options options, Runtime& runtime, std::unique_ptr<net::Loop> loop);
  // The rest is for the loop's thread.
  void begin();
  Result<net::Address> find_server();
  void say_hello();
  void lose(const Status& why);
  void refuse(const Status& why);
  void take(std::string_view frame);
  void take_challenge(const wire::Challenge& challenge);
  void take_welcome(const wire::Welcome& welcome);
  void take_reply(const wire::Reply& reply);
  void submit(const std::shared_ptr<Call>& call);
  void send(Call& call);
  void give_up(const std::shared_ptr<Call>& call);
  void abandon(const std::shared_ptr<Call>& call);
  void finish(Calls::iterator at, Result<wire::Reply> outcome);
  void send(const wire::FromClient& message);
  std::string where() const;

  const Options options_;
  Runtime& runtime_;
  const pid_t process_;
  const uint64_t client_;
  const std::unique_ptr<Event> opened_;  // after which open() reads `refused_`
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<Server> server_;  // where this client is the one that serves
  std::shared_ptr<net::Connection> connection_;
  net::Timer patience_;  // with the handshake
  net::Timer retry_;
  Stage stage_ = Stage::kAway;
  Duration backoff_{};
  Status last_reason_;  // why there is no connection
  Status refused_;      // why there never will be
  bool was_ready_ = false;
  std::string our_nonce_;
  std::string its_nonce_;
  uint64_t store_ = 0;  // 0: not known yet
  Calls calls_;
  uint64_t last_sequence_ = 0;
};

}  // namespace ffdl::store
