#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// A world and its communicator.
struct Connected {
  World world;
  std::unique_ptr<Communicator> communicator;
};

// Connects the communicator of the next world while the present one works. A task learns of each
// world that has this member in it, and connects it. A second task watches the present world and
// the life of this member. It calls no store, so that a hanging store does not delay it.
// Threads: all methods from any thread.
// Owns: its tasks, and the newest communicator until it is taken.
class NextWorldConnector {
 public:
  struct Options {
    CommunicatorFactory connect;
    Duration connect_timeout;
  };
  // Ends the collectives of the worlds up to `generation`, which are over for the reason `why`.
  using OnOver = std::function<void(uint64_t generation, const Status& why)>;

  // Calls `on_over` from its own task, at most once for each present world. It does so when a
  // member of that world is no longer a candidate and a newer world forms. It also does so when a
  // newer world has replaced it. When the life of this member is over, the generation is the
  // greatest number.
  NextWorldConnector(Membership& membership, Runtime& runtime, Options options, OnOver on_over);
  ~NextWorldConnector();
  // Returns false if a thread could not begin; then no world is connected or watched.
  bool has_begun() const { return task_ != nullptr && watching_ != nullptr; }

  // Returns the generation that this member could change over to now: a connected one, or one
  // without this member. Returns 0 if none is newer than the present one.
  uint64_t ready() const;
  // Sets the present world, which `on_over` is about.
  void set_present(const World& world);

  // Returns what is connected, if it has that generation.
  std::optional<Connected> take(uint64_t generation);
  // Waits for a connected world newer than `generation`. Errors: kTimeout (names why the last one
  // was not connected), kExhausted (this member lacks a resource for its first connection),
  // kInvalidArgument (its address is not one of this host), kCancelled (the membership is over).
  Result<Connected> wait_after(uint64_t generation, Time deadline);

 private:
  void run(const StopToken& stop);
  void connect(const World& world, const StopToken& stop);
  void watch(const StopToken& stop);
  bool is_over(const World& world, Time now);
  bool is_own_fault(const Status& failed) const;

  Membership& membership_;
  Runtime& runtime_;
  const Options options_;
  const OnOver on_over_;
  const std::unique_ptr<Event> changed_;
  const std::unique_ptr<Event> ends_;  // wakes the watching task

  mutable base::Mutex mutex_;
  World present_ FFDL_GUARDED_BY(mutex_);
  bool told_over_ FFDL_GUARDED_BY(mutex_) = false;
  uint64_t known_ FFDL_GUARDED_BY(mutex_) = 0;       // newest generation seen
  bool without_me_ FFDL_GUARDED_BY(mutex_) = false;  // this member is not in that world
  std::optional<Connected> next_ FFDL_GUARDED_BY(mutex_);
  Status failed_ FFDL_GUARDED_BY(mutex_);                // why the last world was not connected
  bool reached_nobody_ FFDL_GUARDED_BY(mutex_) = false;  // it reached no other member
  struct Superseded {
    uint64_t generation = 0;
    Time since{};
  };
  std::optional<Superseded> superseded_;  // used by the watching task
  std::unique_ptr<Task> task_;            // both are last: they use all of the above
  std::unique_ptr<Task> watching_;
};

}  // namespace ffdl::elastic
