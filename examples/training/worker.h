#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ffdl/ps/learner.h"
#include "ffdl/status.h"
#include "training/task.h"

namespace training {

// The parameters of a learner process.
struct Workplace {
  std::string segment;
  int slot = 0;
  int mini_batch = 0;  // samples of one, at most
  bool waits = false;  // learners wait for each other: stale and bulk synchrony
};

// The training loop of a learner process: computes and pushes the gradients of mini-batches in
// order.
// Threads: one at a time.
class Worker {
 public:
  virtual ~Worker() = default;

  virtual ffdl::Learner& learner() = 0;

  // Takes the next mini-batch, which may stay in progress. Returns a mini-batch that has been
  // pushed, this or an earlier one, or nothing. Blocks: until `deadline`.
  virtual ffdl::Result<std::optional<Step>> step(const MiniBatch& mini_batch,
                                                 ffdl::Time deadline) = 0;

  // Returns the next mini-batch in progress after the last step(), or nothing if there is none.
  virtual ffdl::Result<std::optional<Step>> finish(ffdl::Time deadline) = 0;
};

// Attaches a worker that computes on the processor, one mini-batch after the other: Task::step().
ffdl::Result<std::unique_ptr<Worker>> attach_host_worker(Task& task, const Workplace& workplace,
                                                         ffdl::Time deadline);

}  // namespace training
