#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "ffdl/communicator.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// A world and what its members say to each other with.
struct Connected {
  World world;
  std::unique_ptr<Communicator> communicator;
};

// Builds the communicator of the next world while the present one works: a task learns of each
// world that has this member in it, and connects it.
// Threads: all methods from any thread.
// Owns: its task, and the newest communicator until it is taken.
class Successor {
 public:
  struct Options {
    CommunicatorFactory connect;
    Duration connect_timeout;
  };
  // `on_lost` is called by the task when a member of the present world is no candidate any more, so
  // that a collective that waits for it can be ended.
  Successor(Membership& membership, Runtime& runtime, Options options,
            std::function<void()> on_lost);
  ~Successor();

  // The generation that this member could change over to now: one that is connected, or one that
  // does without it. 0: none that is newer than the present one.
  uint64_t ready() const;
  // The world that is worked in now; `on_lost` is about its members.
  void set_present(const World& world);

  // What is connected, if it is of that generation.
  std::optional<Connected> take(uint64_t generation);
  // Waits for a connected world newer than `generation`. Errors: kTimeout, kCancelled (the
  // membership is over).
  Result<Connected> wait_after(uint64_t generation, Time deadline);

 private:
  void run(const StopToken& stop);
  void connect(const World& world);
  void look_for_losses();

  Membership& membership_;
  Runtime& runtime_;
  const Options options_;
  const std::function<void()> on_lost_;
  const std::unique_ptr<Event> changed_;

  mutable base::Mutex mutex_;
  World present_ FFDL_GUARDED_BY(mutex_);
  bool told_loss_ FFDL_GUARDED_BY(mutex_) = false;
  uint64_t known_ FFDL_GUARDED_BY(mutex_) = 0;       // newest generation seen
  bool without_me_ FFDL_GUARDED_BY(mutex_) = false;  // this member is not in that one
  std::optional<Connected> next_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
