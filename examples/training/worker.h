#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ffdl/learner.h"
#include "ffdl/status.h"
#include "training/task.h"

namespace training {

// Where a learner process works.
struct Workplace {
  std::string segment;
  int slot = 0;
  int mini_batch = 0;  // samples of one, at most
  bool waits = false;  // learners wait for each other: stale and bulk synchrony
};

// What a learner process does with its mini-batches: gradients that are pushed, in their order.
// Threads: one at a time.
class Worker {
 public:
  virtual ~Worker() = default;

  virtual ffdl::Learner& learner() = 0;

  // Takes the next mini-batch. It may stay under way: what this returns is one that has been
  // pushed, this or an earlier one, or nothing. Blocks: until `deadline`.
  virtual ffdl::Result<std::optional<Step>> step(const MiniBatch& mini_batch,
                                                 ffdl::Time deadline) = 0;

  // When there are no more: the next one that was under way; nothing when there is none.
  virtual ffdl::Result<std::optional<Step>> finish(ffdl::Time deadline) = 0;
};

// Computes on the processor, one mini-batch after the other: Task::step().
ffdl::Result<std::unique_ptr<Worker>> attach_host_worker(Task& task, const Workplace& workplace,
                                                         ffdl::Time deadline);

}  // namespace training
