#pragma once

#include "elastic/session/life.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The end of a wait of a session. The time in which this process stood still does not count: it
// could not see what it waits for.
// Threads: those of Life::awake_time(), one at a time.
class WaitLimit {
 public:
  // Begins a wait. Requires that `life` outlives this object.
  WaitLimit(const Life& life, Duration limit)
      : life_(life), begin_(life.awake_time()), limit_(limit) {}

  // Begins the wait anew.
  void restart() { begin_ = life_.awake_time(); }
  bool is_over() const { return is_over_for({}); }
  // Returns true if the wait has been over for so long.
  bool is_over_for(Duration time) const { return life_.awake_time() - begin_ - time >= limit_; }

 private:
  const Life& life_;
  Time begin_;
  const Duration limit_;
};

}  // namespace ffdl::elastic
