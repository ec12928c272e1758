#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/learner.h"

namespace ffdl {

struct DeviceLearnerOptions {
  int device = -1;  // the GPU; -1: the one that the attaching thread uses
  LearnerOptions learner{};
};

// Some rows of one table on their way into a GPU's memory.
struct DeviceRows {
  uint64_t table = 0;                // first parameter of the table
  uint64_t row_size = 0;             // floats per row
  std::span<const uint64_t> rows{};  // of the host; one may come several times
  std::span<float> to{};             // of the GPU: rows.size() x row_size, row-major
};

// A learner whose weights and gradients lie in a GPU's memory. Copy engines move them while the GPU
// computes the next mini-batch (GaDei, arXiv 1611.06213): the weights out of the parameter server's
// shared memory, the gradients into memory of this object, from which a thread puts them into the
// slot. Both are pinned. The server folds on the processor. The loop, with two arrays of weights
// and two of gradients that are used in turn:
//   learner->start_pull(weights[0], stream);
//   for (int i = 0; ...; ++i) {
//     learner->finish_pull(deadline);                        // weights[i % 2] is there
//     learner->start_pull(weights[(i + 1) % 2], stream);
//     compute(weights[i % 2], samples, gradients[i % 2], stream);  // kernels: returns at once
//     if (i > 0) learner->finish_push(deadline);             // the last gradient has left the GPU
//     learner->start_push(gradients[i % 2], stream, samples);
//   }
// With Synchrony::kStale and kBulk finish_push(), then learner().begin_mini_batch() come before the
// next compute().
// A push is ordered behind what its stream was given before the call, and commits gradient and
// samples, on a thread, when the copy has ended; until then nothing is pushed, whoever dies.
// `stream` is a cudaStream_t of the caller, of `device`; null is the default stream. The spans are
// addresses of the GPU.
// Threads: as Learner, whose two threads it uses; any number of these objects on one GPU.
// Owns: its Learner, two streams, the pinning, and host memory for one gradient and for the rows of
//       one pull.
// Blocks: finish_push and finish_pull until the GPU has done what is under way, or the deadline;
//         never for the server, but for kSnapshot. The destructor: until the GPU has done it.
// Errors: those of Learner; what the GPU fails with comes from the next finish_push or finish_pull,
//         and nothing of that push was committed; kUnimplemented (no GPU, no driver, or a build
//         without CUDA); kInvalidArgument also for memory of the host.
class FFDL_API DeviceLearner {
 public:
  // As Learner::attach. Each has a mapping of its own, to be pinned.
  static Result<std::unique_ptr<DeviceLearner>> attach(std::string_view name, Time deadline,
                                                       const DeviceLearnerOptions& options = {});
  static Result<std::unique_ptr<DeviceLearner>> attach(const ParameterServer& server, Time deadline,
                                                       const DeviceLearnerOptions& options = {});
  ~DeviceLearner();
  DeviceLearner(const DeviceLearner&) = delete;
  DeviceLearner& operator=(const DeviceLearner&) = delete;

  // For all else: begin_mini_batch, flush, detach, partitions, statistics. Of the calls that start
  // and finish something, use those of this object alone.
  Learner& learner();
  const Learner& learner() const;

  // Orders the copy of a gradient of `parameters()` floats behind what `stream` was given, and
  // returns at once. The gradient must stay as that leaves it until finish_push() has returned.
  // One push at a time.
  Status start_push(std::span<const float> gradient, void* stream, SampleRange samples);
  // The same for one gradient of several separate ranges, in the order in which they were used.
  Status start_push_ranges(std::span<const float> gradient, void* stream,
                           std::span<const SampleRange> samples);
  // The same for a gradient of 16-bit numbers, with half of the traffic, as Learner::push_halves.
  Status start_push_halves(GradientType type, std::span<const uint16_t> gradient, void* stream,
                           SampleRange samples);
  Status start_push_ranges(GradientType type, std::span<const uint16_t> gradient, void* stream,
                           std::span<const SampleRange> samples);
  // The same for a gradient that touches few of the parameters, as Learner::push_sparse: its rows
  // are of the host, and are read before the call returns; its values are of the GPU, no more than
  // `parameters()` floats in all, so rows that come again are best added up there.
  Status start_push_sparse(const SparseGradient& gradient, void* stream, SampleRange samples);
  // Waits until the gradient has left the GPU, and tells what became of it.
  Result<PushResult> finish_push(Time deadline);

  // Begins to copy the weights into the GPU's memory, behind what `stream` was given, and returns
  // at once. With kSnapshot each shard as it was between two updates: what changed under the copy
  // is copied again. One pull at a time.
  Status start_pull(std::span<float> weights, void* stream, PullMode mode = PullMode::kRelaxed);
  // The same for rows of tables, as Learner::pull_rows: the processor gathers them, one copy for
  // each table brings them over. `rows` are read before the call returns.
  Status start_pull_rows(std::span<const DeviceRows> tables, void* stream);
  // Waits until the weights are there, for all streams; their version.
  Result<uint64_t> finish_pull(Time deadline);

  // Why the memory could not be pinned; empty where it is. It works all the same, slower; the log
  // says so once.
  const std::string& not_pinned() const;

  class Impl;

 private:
  explicit DeviceLearner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
