#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ffdl/ps/learner.h"
#include "ffdl/status.h"

namespace training {

struct Score {
  float loss = 0;
  float accuracy = 0;
};

// The samples of one gradient.
struct MiniBatch {
  std::span<const uint64_t> samples;  // indices of training samples
  ffdl::SampleRange range;            // the range that its push commits
  uint64_t seed = 0;  // for dropout: a successor that repeats the mini-batch uses the same
};

struct Step {
  uint64_t end = 0;  // of the mini-batch's range
  float loss = 0;
  uint64_t bytes = 0;  // of weights read from the server and of gradient written to it
};

class Worker;
struct Workplace;

// The part of the training that an example provides: its samples and its model. Every process has
// its own.
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

  // Returns ParameterServerOptions::rows_max, for a task that pushes sparse gradients.
  virtual uint32_t rows_max() const { return 0; }

  virtual void initialize(std::span<float> weights, uint64_t seed) const = 0;

  // Computes the mean gradient over the mini-batch, on the processor, and pushes it. Blocks: until
  // `deadline`.
  virtual ffdl::Result<Step> step(ffdl::Learner& learner, const MiniBatch& mini_batch,
                                  ffdl::Time deadline) = 0;

  // Attaches a learner with its network in a GPU's memory, for examples with Example::find_device.
  // The task must outlive it.
  virtual ffdl::Result<std::unique_ptr<Worker>> attach_device_worker(const Workplace& workplace,
                                                                     ffdl::Time deadline);

  virtual Score validate(std::span<const float> weights) = 0;  // used for every choice
  virtual Score test(std::span<const float> weights) = 0;      // used once, at the end
};

}  // namespace training
