#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "net/address.h"
#include "store/etcd/http.h"

namespace ffdl::store {

// A client's side of etcd: sends calls to one of its members, and to the next if that one does not
// answer.
// Threads: all methods from any thread.
class EtcdLink {
 public:
  struct Options {
    std::vector<net::Address> endpoints{};  // at least one
    Duration operation_timeout{};
    std::string certificates{};  // the folder of them, for TLS; empty: plain HTTP
    std::string user{};          // empty: etcd is called without one
    std::string password{};
  };
  EtcdLink(Options options, Runtime& runtime);

  struct Call {
    std::string path{};
    std::string body{};
    std::string what{};    // begins a message: "put 'k'"
    bool changes = false;  // doing it twice differs from once
  };
  // Reads the answer. Its kCorrupt means that etcd did not write it.
  using Read = std::function<Status(std::string_view body)>;
  // Makes a call.
  // Blocks: until the operation timeout.
  // Errors: those of `read` and of etcd; kUnavailable (nothing happened), kTimeout (whether it took
  //         effect is unknown), kCancelled (in a forked child).
  Status call(const Call& call, const Read& read);

  // The member to speak to now. Callers with a connection of their own to it report the result of
  // each attempt.
  struct Member {
    size_t index = 0;
    net::Address address{};
  };
  Member member();
  void has_answered(const Member& member);
  // Makes the next member the one to ask.
  void has_failed(const Member& member);
  // Reports that the member could not even be reached, by an attempt that began at `began`.
  void is_away(Time began);

  // Lets the connection call as the user; asks etcd for a token if there is none. Does nothing
  // without a user. Errors: kInvalidArgument (user or password is wrong), and those of ask().
  Status authorize(EtcdHttp& connection, Time deadline);
  // Lets the next authorize() ask for another token: etcd knows this one no longer.
  void forget_token();

  std::string url() const;
  const std::string& certificates() const { return options_.certificates; }

 private:
  enum class Effect { kSettled, kNone, kUnknown };
  struct Outcome {
    Effect effect = Effect::kSettled;
    Status status{};
  };
  Outcome attempt(const Member& member, const Call& call, const Read& read, Time deadline);
  std::unique_ptr<EtcdHttp> connection_to(const Member& member);
  void keep(const Member& member, std::unique_ptr<EtcdHttp> connection);

  struct Idle {
    size_t index;  // of the member
    std::unique_ptr<EtcdHttp> connection;
  };
  const Options options_;
  Runtime& runtime_;
  const pid_t process_;
  base::Mutex mutex_;
  size_t current_ FFDL_GUARDED_BY(mutex_);
  std::vector<Idle> idle_ FFDL_GUARDED_BY(mutex_);
  Time answered_ FFDL_GUARDED_BY(mutex_) = Time::min();  // the last time
  bool away_ FFDL_GUARDED_BY(mutex_) = false;            // no member has answered since
  std::string token_ FFDL_GUARDED_BY(mutex_);            // of the user; empty: none yet
};

}  // namespace ffdl::store
