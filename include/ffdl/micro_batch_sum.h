#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/communicator.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

namespace base {
class DeviceSide;
}

// The same at all ranks, but for the number of a device.
struct MicroBatchOptions {
  // How many micro-batches of a step each rank computes, by rank: rank 0 has the first of them,
  // rank 1 the next. even_shares() shares them out; a faster rank may be given more, any may have
  // none. Their sum, at most 4096, is what the job keeps when the number of ranks changes.
  std::vector<uint64_t> shares;
  uint64_t count = 0;  // elements of one gradient
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kMean;
  // Gradients and results lie in the memory of this GPU, that of the communicator, which is one
  // of kNccl or kDeviceShm; below 0: of the one that the calling thread uses. Nothing: in the
  // host's.
  std::optional<int> device{};
  base::DeviceSide* devices = nullptr;  // another machine's GPUs, for tests; outlives the sum
};

// As even as possible: where it does not divide, the first ranks have one more.
FFDL_API std::vector<uint64_t> even_shares(uint64_t micro_batches, int ranks);

// Reduces the gradients of the micro-batches of a step to the same bits, whatever the number of
// ranks, the shares of them and the back end: the fixed tree stands over the micro-batches instead
// of the ranks. (Others call a micro-batch a virtual worker, or a step of gradient accumulation.)
// Each must itself be computed alike wherever it runs; docs/footguns.md says what that takes.
//   auto sum = MicroBatchSum::create(
//       communicator, {.shares = even_shares(8, communicator.world().size()), .count = n},
//       deadline);
//   for (each step) {
//     for (uint64_t i = (*sum)->begin(); i < (*sum)->end(); ++i) {
//       compute_gradient_of(micro_batch(step, i), gradient);
//       (*sum)->add({gradient, n});
//     }
//     Status status = (*sum)->finish({gradient, n}, deadline);
//   }
// In a GPU's memory its default stream adds: behind what the program gave that before add(), before
// what it gives it later. The bits are those of the host's memory.
// float16 and bfloat16 are added as float32 and rounded once. With one micro-batch per rank the
// result is that of all_reduce. What it costs: docs/decisions/0007-collectives.md.
// Threads: one at a time, the one that runs the operations of the communicator.
// Owns: sums of its micro-batches, about log2(share) gradients (up to twice that with shares that
//       are no powers of two), as float32 where the gradient is shorter; its piece of the result;
//       some MiB. Borrows the communicator, which must outlive it: a new world has a new one.
// Blocks: create() and finish() until the others have come, or their deadline; add() never.
// Errors: those of Communicator, with a device also what CUDA fails with: kExhausted (its memory is
// full), kInternal. What is wrong with a call itself changes nothing.
class FFDL_API MicroBatchSum {
 public:
  // Every rank calls it, between the same operations. Errors: kInvalidArgument (options that make
  // no sense, or differ between the ranks: the message names both), kUnimplemented (in a GPU's
  // memory: what is no sum of floating point numbers; no GPU, driver or CUDA).
  static Result<std::unique_ptr<MicroBatchSum>> create(Communicator& communicator,
                                                       const MicroBatchOptions& options,
                                                       Time deadline);
  ~MicroBatchSum();
  MicroBatchSum(const MicroBatchSum&) = delete;
  MicroBatchSum& operator=(const MicroBatchSum&) = delete;

  // This rank computes the micro-batches [begin(), end()) of each step.
  uint64_t begin() const;
  uint64_t end() const;

  // The gradient of the next micro-batch, in order, as a list of buffers. It is not needed any more
  // when this returns.
  Status add(std::span<const Buffer> gradient);
  Status add(Buffer gradient) { return add(std::span<const Buffer>(&gradient, 1)); }

  // Ends the step: every rank gets the reduction of all micro-batches. A mean is divided once, by
  // `weight` where it is given, such as the tokens of all micro-batches: the same at all ranks. A
  // step that failed in the communicator is gone, and the contents of `out` are undefined then.
  Status finish(std::span<const Buffer> out, Time deadline, std::optional<double> weight = {});
  Status finish(Buffer out, Time deadline, std::optional<double> weight = {}) {
    return finish(std::span<const Buffer>(&out, 1), deadline, weight);
  }

  class Impl;

 private:
  explicit MicroBatchSum(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
