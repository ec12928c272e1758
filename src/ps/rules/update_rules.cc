#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/errors.h"
#include "ffdl/ps/update_rule.h"
#include "ps/rules/journalled_rule.h"
#include "ps/rules/update_kernels.h"

namespace ffdl {
namespace {

// The properties of one built-in rule. Every list of rules uses this table.
struct BuiltIn {
  UpdateRuleKind kind;
  std::string_view name;
  int state_count;
  bool takes_mean;
};

constexpr BuiltIn kBuiltIns[] = {
    {UpdateRuleKind::kSgd, "sgd", 0, false},
    {UpdateRuleKind::kMomentum, "momentum", 1, false},
    {UpdateRuleKind::kAdam, "adam", 2, true},
    {UpdateRuleKind::kAdamW, "adamw", 2, true},
    {UpdateRuleKind::kNesterov, "nesterov", 1, false},
    {UpdateRuleKind::kAdagrad, "adagrad", 1, true},
    {UpdateRuleKind::kAverage, "average", 0, false},
};

const BuiltIn* find_built_in(UpdateRuleKind kind) {
  const auto* const found = std::ranges::find(kBuiltIns, kind, &BuiltIn::kind);
  return found == std::end(kBuiltIns) ? nullptr : found;
}

class BuiltInRule final : public UpdateRule, public ps::JournalledRule {
 public:
  BuiltInRule(const BuiltIn& built_in, const UpdateRuleOptions& options)
      : built_in_(built_in), options_(options) {}
  std::string_view name() const override { return built_in_.name; }
  int state_count() const override { return built_in_.state_count; }
  bool takes_mean() const override { return built_in_.takes_mean; }
  void apply(const UpdateStep& step, const UpdateBlock& block) const override {
    ps::update_block(options_, step, block);
  }
  void run(const UpdateStep& step, const ps::JournalledRun& steps) const override {
    ps::update_run(options_, step, steps);
  }

 private:
  const BuiltIn& built_in_;
  const UpdateRuleOptions options_;
};

Status check_number(std::string_view name, float value, float least, float limit) {
  if (value >= least && value < limit) return {};  // false for NaN too
  return base::invalid_argument("make an update rule: {} is {}; give a number in [{}, {})", name,
                                value, least, limit);
}

}  // namespace

std::string_view to_string(UpdateRuleKind kind) {
  const BuiltIn* const found = find_built_in(kind);
  return found != nullptr ? found->name : "unknown";
}

Result<UpdateRuleKind> parse_update_rule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltIn& built_in : kBuiltIns) {
    if (name == built_in.name) return built_in.kind;
    names.push_back(built_in.name);
  }
  return base::invalid_argument("name an update rule '{}': unknown; use one of {}", name,
                                fmt::join(names, ", "));
}

Result<std::unique_ptr<UpdateRule>> make_update_rule(const UpdateRuleOptions& options) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  FFDL_RETURN_IF_ERROR(check_number("learning_rate", options.learning_rate, 0, kInfinity));
  FFDL_RETURN_IF_ERROR(check_number("weight_decay", options.weight_decay, 0, kInfinity));
  FFDL_RETURN_IF_ERROR(check_number("momentum", options.momentum, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("beta1", options.beta1, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("beta2", options.beta2, 0, 1));
  FFDL_RETURN_IF_ERROR(check_number("epsilon", options.epsilon, 0, kInfinity));
  const BuiltIn* const found = find_built_in(options.kind);
  if (found != nullptr) {
    return std::unique_ptr<UpdateRule>(std::make_unique<BuiltInRule>(*found, options));
  }
  return base::invalid_argument("make an update rule: kind {} is unknown; use an UpdateRuleKind",
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
