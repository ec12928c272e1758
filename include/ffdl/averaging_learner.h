#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ffdl/learner.h"

namespace ffdl {

// How a learner trains on its own, and how it meets the others.
struct AveragingOptions {
  UpdateRuleOptions rule{};         // of the local steps
  LearningRateSchedule schedule{};  // over the local steps, counted from attach()
  uint32_t period = 16;             // mini-batches from one exchange to the next, at least 1
  // The part of the distance to the centre that an exchange moves, in (0, 1]. With several
  // learners and Synchrony::kAsync keep elasticity * learners below 1. 1 with Synchrony::kBulk is
  // model averaging.
  float elasticity = 0.25F;
  LearnerOptions learner{};
};

// What this AveragingLearner did since attach().
struct AveragingStats {
  uint64_t mini_batches = 0;
  uint64_t skipped = 0;  // of these, dropped for NaN or Inf (NonFinite::kSkip)
  uint64_t exchanges = 0;
  uint64_t late = 0;      // mini-batches by which a late server made periods longer
  uint64_t restarts = 0;  // the local model held NaN or Inf and began again at the centre
};

// A learner that trains a model of its own and meets the others every `period` mini-batches
// (elastic averaging SGD, arXiv 1412.6651). The server, whose rule is UpdateRuleKind::kAverage,
// holds the centre. An exchange moves d = elasticity * (local - centre) from the local model to the
// centre, and commits with it, once, all samples of the period. The loop:
//   while (...) {
//     auto model = learner->begin_mini_batch(deadline);   // exchanges when a period is over
//     compute(*model, samples, gradient);
//     learner->step(gradient, samples);                   // local
//   }
//   learner->detach(deadline);
// With Synchrony::kBulk an exchange is one round. With elasticity 1 the centre then becomes the
// mean of the members' models, and each of them goes on from there; the state of its rule (momentum
// and the like) stays its own. With a smaller elasticity the centre moves by the mean of all d.
// No exchange begins before the last one is folded: a late server makes periods longer, never a
// learner slower. Whoever attaches begins at the centre, with a fresh state.
// Threads: one thread at a time. An object inherited by fork() refuses to exchange.
// Owns: its Learner, the local model and its state. What was not exchanged when it goes is void,
//       and its samples stay uncommitted: whoever takes the partition over does them again.
// Blocks: begin_mini_batch where a period begins, as Learner::begin_mini_batch does; flush, detach.
//         After kTimeout any of them may be called again: nothing is exchanged twice.
// Errors: those of Learner; kInvalidArgument for a server that does not average, or clips.
class FFDL_API AveragingLearner {
 public:
  static Result<std::unique_ptr<AveragingLearner>> attach(std::string_view name, Time deadline,
                                                          const AveragingOptions& options = {});
  // For threads of the server's process; the way into an anonymous segment.
  static Result<std::unique_ptr<AveragingLearner>> attach(const ParameterServer& server,
                                                          Time deadline,
                                                          const AveragingOptions& options = {});
  ~AveragingLearner();
  AveragingLearner(const AveragingLearner&) = delete;
  AveragingLearner& operator=(const AveragingLearner&) = delete;

  // Exchanges if a period is over, and gives the local model to compute the next gradient from;
  // the memory stays the same, its contents until the next call of this object.
  Result<std::span<const float>> begin_mini_batch(Time deadline);

  // One update of the local model, for the mini-batch that was begun. The samples are committed
  // with the exchange that ends the period. On an error nothing has happened.
  // Errors: kInvalidArgument; kExhausted (one exchange cannot name that many separate ranges).
  Status step(std::span<const float> gradient, SampleRange samples);

  // Exchanges what the open period holds and waits until the server has folded all of it.
  Status flush(Time deadline);
  // flush, then gives the slot back.
  Status detach(Time deadline);

  // Its slot, the committed positions, the centre (live_weights()) and what was published.
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
