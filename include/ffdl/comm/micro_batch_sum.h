#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/comm/communicator.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

namespace base {
class DeviceSide;
}

// The options of a MicroBatchSum: the same at all ranks, except `device`.
struct MicroBatchOptions {
  // The number of micro-batches of a step per rank: rank 0 computes the first of them, rank 1 the
  // next. even_shares() divides them evenly. A faster rank may have more, and any rank may have
  // none. Their sum, at most 4096, must stay constant when the number of ranks changes.
  std::vector<uint64_t> shares;
  uint64_t count = 0;  // elements of one gradient
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kMean;
  // The GPU whose memory holds gradients and results; below 0: the one that the calling thread
  // uses. It is the GPU of the communicator, which is one of kNccl or kDeviceShm. Empty: they are
  // in the host's memory.
  std::optional<int> device{};
  base::DeviceSide* devices = nullptr;  // another machine's GPUs, for tests; outlives the sum
};

// Divides micro-batches as evenly as possible: the first ranks have one more where needed.
FFDL_API std::vector<uint64_t> even_shares(uint64_t micro_batches, int ranks);

// Reduces the gradients of a step's micro-batches. The result has the same bits for any number of
// ranks, any shares and any back end: the fixed tree is over the micro-batches, not the ranks.
// (A micro-batch is also known as a virtual worker, or a step of gradient accumulation.)
// The gradient of a micro-batch must not depend on where it is computed; docs/guide/footguns.md
// lists what that requires.
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
// In a GPU's memory the default stream adds: after its work before add(), before its later work.
// The bits are those of the host's memory.
// float16 and bfloat16 are added as float32 and rounded once. With one micro-batch per rank the
// result is that of all_reduce. docs/decisions/0007-collectives.md has the cost.
// Threads: one at a time, the one that runs the operations of the communicator.
// Owns: sums of its micro-batches: about log2(share) gradients (up to twice that if shares are not
//       powers of two), as float32 where the gradient is shorter; its piece of the result; some
//       MiB. Borrows the communicator, which must outlive it. Create another one for a new world.
// Blocks: create() and finish() until the other ranks have come, or their deadline; add() never.
// Errors: those of Communicator, with a device also those of CUDA: kExhausted (its memory is full),
//         kInternal. An invalid call changes nothing.
class FFDL_API MicroBatchSum {
 public:
  // Creates the sum. Every rank calls it, between the same operations. Errors: kInvalidArgument
  // (invalid options, or options that differ between ranks: the message names both), kUnimplemented
  // (in a GPU's memory: a reduction that is not a floating-point sum or mean; no GPU, driver or
  // CUDA).
  static Result<std::unique_ptr<MicroBatchSum>> create(Communicator& communicator,
                                                       const MicroBatchOptions& options,
                                                       Time deadline);
  ~MicroBatchSum();
  MicroBatchSum(const MicroBatchSum&) = delete;
  MicroBatchSum& operator=(const MicroBatchSum&) = delete;

  // Returns the range of this rank's micro-batches in each step: [begin(), end()).
  uint64_t begin() const;
  uint64_t end() const;

  // Adds the gradient of the next micro-batch, in order, as a list of buffers. The buffers may be
  // overwritten when this returns.
  Status add(std::span<const Buffer> gradient);
  Status add(Buffer gradient) { return add(std::span<const Buffer>(&gradient, 1)); }
  // Drops the gradients that this rank added in this step. Add all of them again before finish().
  void clear();

  // Ends the step. Every rank receives the reduction of all micro-batches. A mean is divided once,
  // by `weight` if given: for example the tokens of all micro-batches, the same at all ranks. If
  // the communicator fails, the step is lost and the contents of `out` are undefined.
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
