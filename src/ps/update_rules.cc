#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "ffdl/update_rule.h"
#include "ps/update_kernels.h"

namespace ffdl {
namespace {

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const UpdateRuleOptions& options) : options_(options) {}
  std::string_view name() const override { return "sgd"; }
  int state_count() const override { return 0; }
  bool takes_mean() const override { return false; }
  void apply(const UpdateStep& step, const UpdateBlock& block) const override {
    ps::update_sgd(options_, step, block);
  }

 private:
  const UpdateRuleOptions options_;
};

class Momentum final : public UpdateRule {
 public:
  explicit Momentum(const UpdateRuleOptions& options) : options_(options) {}
  std::string_view name() const override { return "momentum"; }
  int state_count() const override { return 1; }
  bool takes_mean() const override { return false; }
  void apply(const UpdateStep& step, const UpdateBlock& block) const override {
    ps::update_momentum(options_, step, block);
  }

 private:
  const UpdateRuleOptions options_;
};

// Adam and AdamW (arXiv 1412.6980, 1711.05101), with PyTorch's order of operations.
class Adam final : public UpdateRule {
 public:
  explicit Adam(const UpdateRuleOptions& options) : options_(options) {}
  std::string_view name() const override { return to_string(options_.kind); }
  int state_count() const override { return 2; }
  bool takes_mean() const override { return true; }
  void apply(const UpdateStep& step, const UpdateBlock& block) const override {
    ps::update_adam(options_, step, block);
  }

 private:
  const UpdateRuleOptions options_;
};

Status check_number(std::string_view name, float value, float least, float limit) {
  if (value >= least && value < limit) return {};  // false for NaN too
  return base::invalid_argument("make an update rule: {} is {}; give a number in [{}, {})", name,
                                value, least, limit);
}

}  // namespace

std::string_view to_string(UpdateRuleKind kind) {
  switch (kind) {
    case UpdateRuleKind::kSgd:
      return "sgd";
    case UpdateRuleKind::kMomentum:
      return "momentum";
    case UpdateRuleKind::kAdam:
      return "adam";
    case UpdateRuleKind::kAdamW:
      return "adamw";
  }
  return "unknown";
}

Result<UpdateRuleKind> parse_update_rule(std::string_view name) {
  for (const auto kind : {UpdateRuleKind::kSgd, UpdateRuleKind::kMomentum, UpdateRuleKind::kAdam,
                          UpdateRuleKind::kAdamW}) {
    if (name == to_string(kind)) return kind;
  }
  return base::invalid_argument(
      "name an update rule '{}': unknown; use sgd, momentum, adam or adamw", name);
}

Result<std::unique_ptr<UpdateRule>> make_update_rule(const UpdateRuleOptions& options) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  FFDL_RETURN_IF_ERROR(check_number("learning_rate", options.learning_rate, 0, kInfinity));
  FFDL_RETURN_IF_ERROR(check_number("weight_decay", options.weight_decay, 0, kInfinity));
  FFDL_RETURN_IF_ERROR(check_number("momentum", options.momentum, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("beta1", options.beta1, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("beta2", options.beta2, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("epsilon", options.epsilon, 0, kInfinity));
  switch (options.kind) {
    case UpdateRuleKind::kSgd:
      return std::unique_ptr<UpdateRule>(std::make_unique<Sgd>(options));
    case UpdateRuleKind::kMomentum:
      return std::unique_ptr<UpdateRule>(std::make_unique<Momentum>(options));
    case UpdateRuleKind::kAdam:
    case UpdateRuleKind::kAdamW:
      return std::unique_ptr<UpdateRule>(std::make_unique<Adam>(options));
  }
  return base::invalid_argument("make an update rule: kind {} is unknown; use a UpdateRuleKind",
                                static_cast<uint32_t>(options.kind));
}

float schedule_factor(const LearningRateSchedule& schedule, uint64_t number) {
  if (number <= schedule.warmup_steps) {
    return static_cast<float>(static_cast<double>(number) /
                              static_cast<double>(schedule.warmup_steps));
  }
  if (schedule.decay == LearningRateSchedule::Decay::kConstant || schedule.decay_steps == 0)
    return 1;
  const auto done = static_cast<double>(number - schedule.warmup_steps - 1);
  const auto length = static_cast<double>(schedule.decay_steps);
  const double last = schedule.final_factor;
  const double part = std::min(done / length, 1.0);
  switch (schedule.decay) {
    case LearningRateSchedule::Decay::kLinear:
      return static_cast<float>(1 + (last - 1) * part);
    case LearningRateSchedule::Decay::kCosine:
      return static_cast<float>(last + (1 - last) * (1 + std::cos(std::numbers::pi * part)) / 2);
    case LearningRateSchedule::Decay::kStep:
      return static_cast<float>(std::pow(last, std::floor(done / length)));
    case LearningRateSchedule::Decay::kConstant:
      break;
  }
  return 1;
}

}  // namespace ffdl
