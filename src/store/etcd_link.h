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
#include "store/etcd_http.h"

namespace ffdl::store {

// A client's side of etcd: carries calls to one of its members, and to the next when that one does
// not answer.
// Threads: all methods from any thread.
class EtcdLink {
 public:
  struct Options {
    std::vector<net::Address> endpoints{};  // at least one
    Duration operation_timeout{};
  };
  EtcdLink(Options options, Runtime& runtime);

  struct Call {
    std::string path{};
    std::string body{};
    std::string what{};    // begins a message: "put 'k'"
    bool changes = false;  // to do it twice is not the same as once
  };
  // Reads the answer; a kCorrupt of it says that etcd did not write that.
  using Read = std::function<Status(std::string_view body)>;
  // Blocks: until the operation timeout.
  // Errors: those of `read` and of etcd; kUnavailable (nothing happened), kTimeout (whether it took
  // effect is unknown), kCancelled (in a forked child).
  Status call(const Call& call, const Read& read);

  // The member to speak to now, for those who keep a connection of their own to it and tell what
  // came of it.
  struct Member {
    size_t index = 0;
    net::Address address{};
  };
  Member member();
  void has_answered(const Member& member);
  // The next one is to be asked.
  void has_failed(const Member& member);
  // It could not even be reached, by an attempt that began then.
  void is_away(Time began);

  std::string url() const;

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
  bool away_ FFDL_GUARDED_BY(mutex_) = false;            // nobody has answered since
};

}  // namespace ffdl::store
