#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ffdl/update_rule.h"
#include "ps/learner_impl.h"

namespace ffdl::ps {

// Weights in private memory and the state of their rule: what a server does with each gradient,
// with the same bits, without sharing.
// Threads: one at a time. Owns: its memory, one copy of the weights and of each value of the state.
class LocalModel {
 public:
  LocalModel(uint64_t parameters, const UpdateRuleOptions& options,
             std::unique_ptr<const UpdateRule> rule, const LearningRateSchedule& schedule);

  std::span<float> weights() { return {weights_.get(), parameters_}; }

  // One update with a gradient of as many floats as there are weights, at any address.
  void update(std::span<const float> gradient);

  // Forgets the rule's state, as if there had been no update.
  void clear_state();

 private:
  const uint64_t parameters_;
  const uint64_t padded_;  // to whole blocks, as rules want it
  const float learning_rate_;
  const std::unique_ptr<const UpdateRule> rule_;
  const LearningRateSchedule schedule_;
  uint64_t updates_ = 0;
  AlignedFloats weights_;
  std::vector<AlignedFloats> state_;
};

}  // namespace ffdl::ps
