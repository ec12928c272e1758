#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ffdl/ps/update_rule.h"
#include "ps/learner/learner_impl.h"

namespace ffdl::ps {

// Holds weights in private memory and the state of their rule. It updates them with the same bits
// as a server, without sharing.
// Threads: one at a time. Owns: its memory, one copy of the weights and of each value of the state.
class LocalModel {
 public:
  LocalModel(uint64_t parameters, const UpdateRuleOptions& options,
             std::unique_ptr<const UpdateRule> rule, const LearningRateSchedule& schedule);

  std::span<float> weights() { return {weights_.get(), parameters_}; }

  // Updates the weights once. The gradient has as many floats as there are weights, at any address.
  void update(std::span<const float> gradient);

  // Resets the rule's state to that before the first update.
  void clear_state();

 private:
  const uint64_t parameters_;
  const uint64_t padded_;  // to whole blocks, as rules require
  const float learning_rate_;
  const std::unique_ptr<const UpdateRule> rule_;
  const LearningRateSchedule schedule_;
  uint64_t updates_ = 0;
  AlignedFloats weights_;
  std::vector<AlignedFloats> state_;
};

}  // namespace ffdl::ps
