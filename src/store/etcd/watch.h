#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/store.h"
#include "store/etcd/link.h"

namespace ffdl::store {

// Records each change under a prefix after the revision at which it was made. It reads a stream,
// and continues it when it breaks.
// Threads: all methods from any thread. One task of the runtime reads the stream.
// Blocks: the destructor, until an attempt to connect ends.
class EtcdWatch {
 public:
  EtcdWatch(EtcdLink& link, Runtime& runtime, std::string prefix, Revision since);
  ~EtcdWatch();
  // Returns false if its thread could not begin; then it sees no change.
  bool has_begun() const { return task_ != nullptr; }
  EtcdWatch(const EtcdWatch&) = delete;
  EtcdWatch& operator=(const EtcdWatch&) = delete;

  Revision since() const { return since_; }
  // Waits for a change after `after`, which is not before since(). Returns the newest one, or
  // nullopt if the deadline came first.
  std::optional<Revision> wait(Revision after, Time deadline);

 private:
  void run(const StopToken& stop);
  Status read_stream(const EtcdLink::Member& member, const StopToken& stop);
  bool take(std::string_view bytes, const EtcdLink::Member& member);
  Status take_line(std::string_view line);
  void note(Revision newest);

  EtcdLink& link_;
  Runtime& runtime_;
  const std::string prefix_;
  const Revision since_;
  const std::unique_ptr<Event> stopped_;
  const std::unique_ptr<Event> ended_;

  // Used by the task only.
  std::string line_;
  Status broken_;  // the reason to stop reading the stream

  base::Mutex mutex_;
  Revision newest_ FFDL_GUARDED_BY(mutex_);
  EtcdHttp* streaming_ FFDL_GUARDED_BY(mutex_) = nullptr;
  // Shared, as the task sets events after it has released the mutex. A waiting thread may have
  // left.
  std::set<std::shared_ptr<Event>> waiters_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;  // the last: it uses the others
};

}  // namespace ffdl::store
