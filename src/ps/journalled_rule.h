#pragma once

#include "ps/update_kernels.h"

namespace ffdl::ps {

// What the built-in rules can do beside UpdateRule::apply: many steps of a fold in one call.
// Threads: run() from several at once.
class JournalledRule {
 public:
  virtual ~JournalledRule() = default;
  virtual void run(const UpdateStep& step, const JournalledRun& steps) const = 0;
};

}  // namespace ffdl::ps
