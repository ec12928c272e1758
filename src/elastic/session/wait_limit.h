#pragma once

#include "elastic/session/life.h"
#include "ffdl/runtime.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The end of a wait of a session. A time in which this process stood still does not count, since
// nothing could happen in it that the wait is for.
// Threads: one at a time, those of Life::stood_still().
class WaitLimit {
 public:
  // Begins a wait. Requires that `runtime` and `life` outlive this object.
  WaitLimit(Runtime& runtime, const Life& life, Duration limit)
      : runtime_(runtime), life_(life), end_(runtime.boottime() - life.stood_still() + limit) {}

  bool is_over() const {
    const Time now = runtime_.boottime();  // first: a standstill after it is none of this look's
    return now - life_.stood_still() >= end_;
  }

 private:
  Runtime& runtime_;
  const Life& life_;
  Time end_;
};

}  // namespace ffdl::elastic
