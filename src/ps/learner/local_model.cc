#include "ps/learner/local_model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ps/segment/layout.h"

namespace ffdl::ps {
namespace {

AlignedFloats zeros(uint64_t count) {
  AlignedFloats memory(static_cast<float*>(std::aligned_alloc(64, count * sizeof(float))));
  std::memset(memory.get(), 0, count * sizeof(float));
  return memory;
}

}  // namespace

LocalModel::LocalModel(uint64_t parameters, const UpdateRuleOptions& options,
                       std::unique_ptr<const UpdateRule> rule, const LearningRateSchedule& schedule)
    : parameters_(parameters),
      padded_((parameters + kBlockFloats - 1) / kBlockFloats * kBlockFloats),
      learning_rate_(options.learning_rate),
      rule_(std::move(rule)),
      schedule_(schedule),
      weights_(zeros(padded_)) {
  for (int s = 0; s < rule_->state_count(); ++s) state_.push_back(zeros(padded_));
}

void LocalModel::update(std::span<const float> gradient) {
  UpdateStep step;
  step.number = ++updates_;
  step.learning_rate = learning_rate_ * schedule_factor(schedule_, updates_);
  // A rule writes its results to separate memory. One block at a time passes through memory that
  // stays in the cache. So does the gradient, whose address and length are the caller's.
  alignas(64) float block_gradient[kBlockFloats] = {};
  alignas(64) float new_values[1 + kRuleStateMax][kBlockFloats];
  for (uint64_t begin = 0; begin < padded_; begin += kBlockFloats) {
    const uint64_t count = std::min(kBlockFloats, parameters_ - begin);
    std::copy_n(gradient.data() + begin, count, block_gradient);
    std::fill(block_gradient + count, block_gradient + kBlockFloats, 0.0F);
    UpdateBlock block;
    block.count = kBlockFloats;
    block.gradient = block_gradient;
    block.weights = weights_.get() + begin;
    block.new_weights = new_values[0];
    for (size_t s = 0; s < state_.size(); ++s) {
      block.state[s] = state_[s].get() + begin;
      block.new_state[s] = new_values[1 + s];
    }
    rule_->apply(step, block);
    std::copy_n(new_values[0], kBlockFloats, weights_.get() + begin);
    for (size_t s = 0; s < state_.size(); ++s) {
      std::copy_n(new_values[1 + s], kBlockFloats, state_[s].get() + begin);
    }
  }
}

void LocalModel::clear_state() {
  updates_ = 0;
  for (AlignedFloats& values : state_) std::fill_n(values.get(), padded_, 0.0F);
}

}  // namespace ffdl::ps
