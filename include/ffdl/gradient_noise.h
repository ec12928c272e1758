#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

namespace base {
class DeviceSide;
}

// How much the gradients of single samples differ from each other, beside how long their mean is.
struct NoiseScale {
  double variance = 0;        // of one sample's gradient: the trace of the covariance
  double squared_norm = 0;    // of the gradient over all samples there are
  uint64_t measurements = 0;  // what both are averages of; 0: nothing is known

  // The batch, in samples, up to which twice the samples nearly halve the number of steps: the
  // simple noise scale of McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv
  // 1812.06162, section 2.2). Infinite where only noise was seen, 0 where nothing is known.
  FFDL_API double value() const;
  // What one step of `samples` samples is worth, in steps of `reference` samples: 1 where nothing
  // is known or both are equal, at most their ratio. The gain of AdaScale (Johnson et al., arXiv
  // 2007.05105, section 3).
  FFDL_API double gain(double reference, double samples) const;

  bool operator==(const NoiseScale&) const = default;
};

struct GradientNoiseOptions {
  // Those of the trainable (session.h), floating point, which must outlive this.
  std::vector<Buffer> gradients{};
  uint64_t interval = 10;  // steps from one measurement to the next
  double smoothing = 0.9;  // how much of the averages a measurement leaves in place: 0 to below 1
  // Of gradients of more than 65,536 elements, one block of 1,024 in so many is read, another one
  // in each measurement; its norm counts for them all, so that the estimate keeps its mean. 1: all.
  uint64_t block_stride = 8;
  // The gradients lie in the memory of this GPU; below 0: of the one that the calling thread uses.
  // Nothing: in the host's.
  std::optional<int> device{};
  base::DeviceSide* devices = nullptr;  // another machine's GPUs, for tests; outlives this
};

// Measures the noise of gradients while a session trains: a participant of its steps
// (step_participant.h). Of several members with samples, the norms of their gradients and of the
// mean tell it (McCandlish et al., appendix A.1, with any number of samples of each). A member that
// is alone compares two steps that follow each other, for which it keeps a copy of the gradients
// (as AdaptDL does, arXiv 2008.12260, section 3.1).
// What it knows is part of the state that members hold in common, and comes with it to a newcomer.
// It must see gradients as they are: clip them where they are applied.
// In a GPU's memory they are read there, behind what its default stream was given; what is measured
// has the same bits.
// Threads: one at a time, that of the session. Blocks: never in the host's memory; in a GPU's until
//         that has done what its default stream was given, in the steps that it measures.
// Cost: each member reads its gradients, or the blocks of them, twice in one step of `interval`;
// three times, and copies them all in the step before, where it is alone.
class FFDL_API GradientNoise final : public StepParticipant {
 public:
  // Errors: kInvalidArgument (gradients that have no norm, or numbers out of bounds); with a device
  // kUnimplemented (no GPU, driver or CUDA), kExhausted (its memory is full).
  static Result<std::unique_ptr<GradientNoise>> create(const GradientNoiseOptions& options);
  ~GradientNoise() override;
  GradientNoise(const GradientNoise&) = delete;
  GradientNoise& operator=(const GradientNoise&) = delete;

  // Equal at all members after each step.
  NoiseScale noise_scale() const;

  size_t record_bytes() const override;
  void describe(std::span<std::byte> record) override;
  void averaged() override;
  bool reads_gradients() const override { return true; }
  bool reads_gradients_on_device() const override;
  Status standing() const override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& world) override;
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

 private:
  class Impl;
  explicit GradientNoise(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
