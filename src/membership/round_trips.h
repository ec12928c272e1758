#pragma once

#include <deque>
#include <optional>
#include <string>

#include "ffdl/types.h"

namespace ffdl::membership {

// Measures the newest calls of a member to its store, and derives the lease that they need.
class RoundTrips {
 public:
  void add(Duration took);

  // Returns advice for a log or an error in one sentence, if this lease is too short for these
  // round trips. After a lease has ended while the store answered, few round trips suffice for
  // advice. A lease that holds needs kJudged of them, since a busy machine delays some.
  std::optional<std::string> advice(Duration lease, bool has_ended) const;

  static constexpr size_t kJudged = 8;
  static constexpr size_t kKept = 16;

 private:
  std::deque<Duration> newest_;
};

}  // namespace ffdl::membership
