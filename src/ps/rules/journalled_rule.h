#pragma once

#include "ps/rules/update_kernels.h"

namespace ffdl::ps {

// An extension of UpdateRule::apply for the built-in rules: many steps of a fold in one call.
// Threads: run() from several at once.
class JournalledRule {
 public:
  virtual ~JournalledRule() = default;
  virtual void run(const UpdateStep& step, const JournalledRun& steps) const = 0;
};

}  // namespace ffdl::ps
