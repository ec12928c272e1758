#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ffdl/ps/learner.h"

namespace ffdl {

// The options of local training and of the exchanges.
struct AveragingOptions {
  UpdateRuleOptions rule{};         // of the local steps
  LearningRateSchedule schedule{};  // over the local steps, counted from attach()
  uint32_t period = 16;             // mini-batches from one exchange to the next, at least 1
  // The part of the distance to the centre that an exchange moves, in (0, 1]. With several
  // learners and Synchrony::kAsync keep elasticity * learners below 1. The value 1 with
  // Synchrony::kBulk is model averaging.
  float elasticity = 0.25F;
  int slot = kAnySlot;  // as in LearnerOptions
};

// Counters of this AveragingLearner since attach().
struct AveragingStats {
  uint64_t mini_batches = 0;
  uint64_t skipped = 0;  // of these, dropped for NaN or Inf (NonFinite::kSkip)
  uint64_t exchanges = 0;
  uint64_t late = 0;      // mini-batches by which a late server made periods longer
  uint64_t restarts = 0;  // resets of a local model with NaN or Inf to the centre
};

// A learner that trains its own local model and exchanges with the centre every `period`
// mini-batches (elastic averaging SGD, arXiv 1412.6651). The server holds the centre; its rule is
// UpdateRuleKind::kAverage. An exchange moves d = elasticity * (local - centre) from the local
// model to the centre. It also commits all samples of the period, once. The loop:
//   while (...) {
//     auto model = learner->begin_mini_batch(deadline);   // exchanges when a period is over
//     compute(*model, samples, gradient);
//     learner->step(gradient, samples);                   // local
//   }
//   learner->detach(deadline);
// With Synchrony::kBulk an exchange is one round. With elasticity 1 the centre then becomes the
// mean of the members' models, and each of them continues from it. The state of each one's rule,
// such as momentum, stays its own. With a smaller elasticity the centre moves by the mean of all d.
// No exchange begins before the last one is folded: a late server makes periods longer, and never
// delays a learner. A learner that attaches starts at the centre, with a fresh state.
// Threads: one thread at a time. An object inherited by fork() refuses to exchange.
// Owns: its Learner, the local model and its state. The destructor drops what was not exchanged.
//       Its samples stay uncommitted: the next learner of the partition uses them again.
// Blocks: begin_mini_batch where a period begins, as Learner::begin_mini_batch does; flush, detach.
//         After kTimeout any of them may be called again: nothing is exchanged twice.
// Errors: those of Learner; kInvalidArgument for a server that does not average, or clips.
class FFDL_API AveragingLearner {
 public:
  static Result<std::unique_ptr<AveragingLearner>> attach(std::string_view name, Time deadline,
                                                          const AveragingOptions& options = {});
  // Attaches a thread of the server's process; required for an anonymous segment.
  static Result<std::unique_ptr<AveragingLearner>> attach(const ParameterServer& server,
                                                          Time deadline,
                                                          const AveragingOptions& options = {});
  ~AveragingLearner();
  AveragingLearner(const AveragingLearner&) = delete;
  AveragingLearner& operator=(const AveragingLearner&) = delete;

  // Exchanges if a period is over. Returns the local model, from which the next gradient is
  // computed. The memory stays the same; its contents are valid until the next call of this object.
  Result<std::span<const float>> begin_mini_batch(Time deadline);

  // Updates the local model once, for the present mini-batch. The samples are committed with the
  // exchange that ends the period. After an error nothing has changed.
  // Errors: kInvalidArgument; kExhausted (one exchange cannot name that many separate ranges).
  Status step(std::span<const float> gradient, SampleRange samples);

  // Exchanges the open period and waits until the server has folded all of it.
  Status flush(Time deadline);
  // Flushes, then releases the slot.
  Status detach(Time deadline);

  // Returns the Learner: its slot, committed positions, the centre (live_weights()), publications.
  const Learner& learner() const;
  AveragingStats stats() const;

  class Impl;

 private:
  explicit AveragingLearner(std::unique_ptr<Impl> impl);
  template <class Server>
  static Result<std::unique_ptr<AveragingLearner>> attach_to(const Server& server, Time deadline,
                                                             const AveragingOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
