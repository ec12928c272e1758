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
#include "store/tcp/server.h"
#include "wire/store.pb.h"

namespace ffdl::store {

// A client's side of a store over TCP. It keeps a connection to the server and sends calls over it.
// After a reconnection it repeats unanswered calls. The server identifies a repeated call by its
// client and sequence. A client with its store's folder reads the server's address there, and
// becomes the server if there is none.
// Threads: call from any thread.
class TcpLink {
 public:
  struct Options {
    std::optional<net::Address> address;  // the server's; if there is none:
    std::string folder;                   // of the store, on this machine
    std::string secret;                   // empty: that of the folder, if it has one
    Duration operation_timeout{};
  };
  // Errors: see open_store.
  static Result<std::unique_ptr<TcpLink>> open(const Options& options, Runtime& runtime);
  ~TcpLink();

  // Returns the reply, whose code is 0. `what` begins a message: "put 'k'".
  // Blocks: until the operation timeout. A wait_change blocks until `deadline`, and for the
  //         operation timeout more while a connected server does not answer.
  // Errors: the reply's; kUnavailable, kTimeout, kExhausted (too many calls at once), kCancelled.
  Result<wire::Reply> call(wire::Request request, std::string_view what,
                           Time deadline = kNoDeadline);

 private:
  // Shared between the calling thread and the loop's.
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
  // The rest runs on the loop's thread.
  void begin();
  Result<net::Address> find_server();
  Result<std::string> find_secret() const;
  void say_hello();
  void lose(const Status& why, bool may_be_final = true);
  void distrust(const Status& why);
  void refuse(const Status& why);
  void take(std::string_view frame);
  void take_early_refusal(const wire::Refusal& refusal);
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
  std::unique_ptr<Server> server_;  // if this client is the one that serves
  std::shared_ptr<net::Connection> connection_;
  net::Timer patience_;  // with the handshake
  net::Timer retry_;
  Stage stage_ = Stage::kAway;
  Duration backoff_{};
  Status last_reason_;  // the reason why there is no connection
  Status refused_;      // the reason why there never will be one
  bool was_ready_ = false;
  std::string secret_;  // of this connection
  std::string our_nonce_;
  std::string its_nonce_;
  uint64_t store_ = 0;  // 0: not known yet
  Calls calls_;
  uint64_t last_sequence_ = 0;
};

}  // namespace ffdl::store
