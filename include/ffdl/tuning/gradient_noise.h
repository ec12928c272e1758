#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

// The noise of gradients: the variance of a single sample's gradient, and the length of their mean.
struct NoiseScale {
  double variance = 0;        // of one sample's gradient: the trace of the covariance
  double squared_norm = 0;    // of the gradient over all existing samples
  uint64_t measurements = 0;  // both values are averages of these; 0: nothing is known

  // Returns the batch size up to which doubling it nearly halves the number of steps: the simple
  // noise scale of McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv
  // 1812.06162, section 2.2). In samples; infinite if only noise was measured, 0 if nothing is
  // known.
  FFDL_API double value() const;
  // Returns the value of one step of `samples` samples, in steps of `reference` samples. At most
  // their ratio; 1 if nothing is known or both are equal. This is the gain of AdaScale (Johnson et
  // al., arXiv 2007.05105, section 3).
  FFDL_API double gain(double reference, double samples) const;

  bool operator==(const NoiseScale&) const = default;
};

struct GradientNoiseOptions {
  // The gradients of the trainable (session.h), floating point, which must outlive this object.
  std::vector<Buffer> gradients{};
  uint64_t interval = 10;  // steps from one measurement to the next
  double smoothing = 0.9;  // the part of the averages that a measurement keeps: 0 to below 1
  // Reads one of this many blocks of 1,024, in gradients of more than 65,536 elements; another one
  // in each measurement. Its norm counts for them all, so the estimate keeps its mean. 1: all.
  uint64_t block_stride = 8;
  // The GPU whose memory holds the gradients; below 0: the one that the calling thread uses. Empty:
  // they are in the host's memory.
  std::optional<int> device{};
};

// Measures the noise of gradients while a session trains. It is a participant of the session's
// steps (step_participant.h). With several members that have samples, it uses the norms of their
// gradients and of the mean (McCandlish et al., appendix A.1). Each may have any number of samples.
// A single member compares two consecutive steps, for which it keeps a copy of the gradients (as
// AdaptDL does, arXiv 2008.12260, section 3.1).
// Its averages are part of the state that members hold in common, so a newcomer receives them.
// It must read unmodified gradients: clip them where they are applied.
// Gradients in a GPU's memory are read there, after the earlier work of its default stream. The
// measurement has the same bits.
// Threads: one at a time, that of the session.
// Blocks: never for gradients in the host's memory. For those of a GPU, in the steps that it
//         measures, until the GPU has finished the earlier work of its default stream.
// Cost: each member reads its gradients, or the chosen blocks, twice in one step of `interval`. A
//       single member reads them three times, and copies them all in the step before.
class FFDL_API GradientNoise : public StepParticipant {
 public:
  // Creates a participant. Errors: kInvalidArgument (gradients without a norm, or numbers out of
  // range); with a device kUnimplemented (no GPU, driver or CUDA), kExhausted (its memory is full).
  static Result<std::unique_ptr<GradientNoise>> create(const GradientNoiseOptions& options);

  // Returns the estimate, equal at all members after each step.
  virtual NoiseScale noise_scale() const = 0;
};

}  // namespace ffdl
