#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ffdl/learner.h"
#include "ffdl/status.h"

namespace training {

struct Score {
  float loss = 0;
  float accuracy = 0;
};

// The samples of one gradient.
struct MiniBatch {
  std::span<const uint64_t> samples;  // indices of training samples
  ffdl::SampleRange range;            // what its push commits
  uint64_t seed = 0;  // of dropout: the same when a successor repeats the mini-batch
};

struct Step {
  uint64_t end = 0;  // of the mini-batch's range
  float loss = 0;
  uint64_t bytes = 0;  // of weights read from the server and of gradient written to it
};

class Worker;
struct Workplace;

// What an example brings to the training: its samples and its model. Every process has its own.
// Threads: one at a time.
class Task {
 public:
  virtual ~Task() = default;

  struct Sizes {
    std::size_t train = 0;
    std::size_t validation = 0;
    std::size_t test = 0;
    std::size_t parameters = 0;
  };
  virtual Sizes sizes() const = 0;

  // ParameterServerOptions::rows_max, for a task that pushes sparse gradients.
  virtual uint32_t rows_max() const { return 0; }

  virtual void initialize(std::span<float> weights, uint64_t seed) const = 0;

  // Computes the mean gradient over the mini-batch, on the processor, and pushes it. Blocks: until
  // `deadline`.
  virtual ffdl::Result<Step> step(ffdl::Learner& learner, const MiniBatch& mini_batch,
                                  ffdl::Time deadline) = 0;

  // A learner whose network lies in a GPU's memory, of examples with Example::find_device. The task
  // must outlive it.
  virtual ffdl::Result<std::unique_ptr<Worker>> attach_device_worker(const Workplace& workplace,
                                                                     ffdl::Time deadline);

  virtual Score validate(std::span<const float> weights) = 0;  // every choice is made on this
  virtual Score test(std::span<const float> weights) = 0;      // looked at once, at the end
};

}  // namespace training
