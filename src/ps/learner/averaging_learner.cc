#include "ffdl/ps/averaging_learner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/half_kernels.h"
#include "base/launcher_watch.h"
#include "ps/learner/learner_impl.h"
#include "ps/learner/local_model.h"
#include "ps/learner/pending_gradient.h"
#include "ps/rules/gradient_kernels.h"
#include "ps/server/elastic_move.h"

namespace ffdl {

using base::invalid_argument;

namespace {

Status check_options(const AveragingOptions& options) {
  if (options.period < 1) {
    return invalid_argument(
        "attach an averaging learner: period is 0 mini-batches; give 1 or more");
  }
  if (!(options.elasticity > 0 && options.elasticity <= 1)) {  // NaN too
    return invalid_argument(
        "attach an averaging learner: elasticity is {}; give a number in (0, 1]",
        options.elasticity);
  }
  if (!(options.schedule.final_factor >= 0)) {
    return invalid_argument(
        "attach an averaging learner: schedule.final_factor is {}; give 0 or more",
        options.schedule.final_factor);
  }
  return {};
}

Status check_server(const ps::Config& config) {
  if (config.custom_rule != 0 || config.rule.kind != UpdateRuleKind::kAverage) {
    return invalid_argument(
        "attach an averaging learner: the server's rule is '{}', which would apply an exchange as "
        "a gradient; create the server with the built-in rule '{}'",
        config.rule_name, to_string(UpdateRuleKind::kAverage));
  }
  if (config.clip_value != 0 || config.clip_norm != 0) {
    return invalid_argument(
        "attach an averaging learner: the server clips the exchanged values (clip_value {}, "
        "clip_norm {}); create it with both 0, and clip gradients before step()",
        config.clip_value, config.clip_norm);
  }
  return {};
}

}  // namespace

class AveragingLearner::Impl {
 public:
  Impl(std::unique_ptr<Learner> attached, const ps::Config& config, const AveragingOptions& options,
       std::unique_ptr<const UpdateRule> rule)
      : learner_(std::move(attached)),
        config_(config),
        options_(options),
        model_(config.parameters, options.rule, std::move(rule), options.schedule),
        exchanged_(config.parameters),
        period_(config.ranges_max) {}

  Result<std::span<const float>> begin_mini_batch(Time deadline);
  Status step(std::span<const float> gradient, const SampleRange& samples);
  Status flush(Time deadline);

  Learner& learner() { return *learner_; }
  const AveragingStats& stats() const { return stats_; }

 private:
  Status check_samples(const SampleRange& samples);
  Result<bool> is_to_skip(std::span<const float> gradient) const;
  bool period_is_over() const { return period_.mini_batches + period_.skipped >= options_.period; }
  bool last_exchange_is_folded() const;
  Status exchange();
  void round_as_pushed();

  const std::unique_ptr<Learner> learner_;
  const ps::Config& config_;  // owned by the learner
  const AveragingOptions options_;
  ps::LocalModel model_;
  std::vector<float> exchanged_;  // the centre, then the gradient computed from it
  ps::PendingGradient period_;    // the current one
  bool begun_ = false;            // a mini-batch has begun
  bool to_centre_ = true;         // the local model becomes the centre when the next period begins
  std::map<uint32_t, uint64_t> next_position_;  // per partition, of the samples passed to this
                                                // learner
  AveragingStats stats_;
};

Result<std::span<const float>> AveragingLearner::Impl::begin_mini_batch(Time deadline) {
  // Within a period no other call reaches `learner_`, which checks this too.
  FFDL_RETURN_IF_ERROR(base::launcher_watch().check("averaging learner {}", learner_->slot()));
  if (period_is_over() && last_exchange_is_folded()) FFDL_RETURN_IF_ERROR(exchange());
  if (period_.empty()) {
    FFDL_RETURN_IF_ERROR(learner_->begin_mini_batch(deadline));
    if (to_centre_) FFDL_RETURN_IF_ERROR(learner_->pull(model_.weights()).status());
    to_centre_ = false;
  }
  begun_ = true;
  return std::span<const float>(model_.weights());
}

// Checks everything that Learner would refuse later, together with the period's other samples.
Status AveragingLearner::Impl::check_samples(const SampleRange& samples) {
  if (samples.partition >= config_.partitions || samples.begin > samples.end) {
    return invalid_argument(
        "step over samples [{}, {}) of partition {}: there are {} partitions; name one of them, "
        "and a range that begins before it ends",
        samples.begin, samples.end, samples.partition, config_.partitions);
  }
  if (samples.begin == samples.end) {
    return invalid_argument(
        "step over samples [{}, {}) of partition {}: no sample is in them, and only samples change "
        "the weights; name those that made the gradient, or leave out the step if there are none",
        samples.begin, samples.end, samples.partition);
  }
  const auto [next, first_time] = next_position_.try_emplace(samples.partition, 0);
  if (first_time) next->second = learner_->committed(samples.partition);
  if (samples.begin < next->second) {
    return invalid_argument(
        "step over samples [{}, {}) of partition {}: all before {} were used already; begin there",
        samples.begin, samples.end, samples.partition, next->second);
  }
  if (!period_.has_room_for({&samples, 1})) {
    return base::make_error(
        StatusCode::kExhausted,
        "step over samples [{}, {}) of partition {}: one exchange names at most {} separate "
        "ranges; flush() and begin again, use neighbouring samples, or raise ranges_max",
        samples.begin, samples.end, samples.partition, config_.ranges_max);
  }
  return {};
}

// Applies the server's option, since values that spoil a local model reach the centre with it.
Result<bool> AveragingLearner::Impl::is_to_skip(std::span<const float> gradient) const {
  if (config_.non_finite == NonFinite::kAccept) return false;
  if (ps::inspect_gradient(gradient.data(), gradient.size()).finite) return false;
  if (config_.non_finite == NonFinite::kSkip) return true;
  const uint64_t where =
      ps::find_beyond(gradient.data(), gradient.size(), std::numeric_limits<float>::max());
  return invalid_argument(
      "step: element {} of the gradient is {}; lower the learning rate or check these samples "
      "(non_finite=skip drops and counts such gradients)",
      where, gradient[where]);
}

Status AveragingLearner::Impl::step(std::span<const float> gradient, const SampleRange& samples) {
  if (!begun_) {
    return invalid_argument("step: no begin_mini_batch() since the last step or flush; call it");
  }
  if (gradient.size() != config_.parameters) {
    return invalid_argument(
        "step with a gradient of {} floats: the server has {} parameters; give one for each",
        gradient.size(), config_.parameters);
  }
  FFDL_RETURN_IF_ERROR(check_samples(samples));
  FFDL_ASSIGN_OR_RETURN(const bool skip, is_to_skip(gradient));
  if (!skip) model_.update(gradient);
  if (period_is_over()) ++stats_.late;
  period_.add({&samples, 1}, 0, skip);
  next_position_[samples.partition] = samples.end;
  begun_ = false;
  ++stats_.mini_batches;
  if (skip) ++stats_.skipped;
  return {};
}

// Returns true once the centre contains this learner's last push. Before that, a second exchange
// would push part of the same distance again, since the local model continues to follow its
// samples.
bool AveragingLearner::Impl::last_exchange_is_folded() const {
  const ps::Region& region = learner_->impl_->region();
  const int l = learner_->slot();
  return region.folded_everywhere(l) == region.learner(l).pub.load(std::memory_order_relaxed);
}

// Requires last_exchange_is_folded(). A relaxed pull suffices. Between two rounds of
// Synchrony::kBulk the centre does not change. Otherwise each element is independent: it moves by a
// recent distance, and the local element by the same.
// This object does not change until the push has succeeded.
Status AveragingLearner::Impl::exchange() {
  FFDL_RETURN_IF_ERROR(learner_->pull(exchanged_).status());
  ps::elastic_gradient(options_.elasticity, model_.weights(), exchanged_);
  FFDL_ASSIGN_OR_RETURN(const PushResult pushed, learner_->push(exchanged_, period_.ranges));
  period_.clear();
  ++stats_.exchanges;
  if (pushed == PushResult::kSkipped) {
    ++stats_.restarts;
    model_.clear_state();
    to_centre_ = true;
  } else if (config_.synchrony == Synchrony::kBulk && options_.elasticity == 1) {
    to_centre_ = true;
  } else {
    round_as_pushed();
    ps::elastic_move(exchanged_, model_.weights());
  }
  return {};
}

// Rounds the gradient as the push does. With a 16-bit gradient type the centre moves by rounded
// numbers, and so must the local model.
void AveragingLearner::Impl::round_as_pushed() {
  if (config_.gradient_type == DType::kFloat32) return;
  uint16_t rounded[ps::kBlockFloats];
  for (uint64_t begin = 0; begin < exchanged_.size(); begin += ps::kBlockFloats) {
    const uint64_t count = std::min(ps::kBlockFloats, exchanged_.size() - begin);
    base::narrow(config_.gradient_type, exchanged_.data() + begin, rounded, count);
    base::widen(config_.gradient_type, rounded, exchanged_.data() + begin, count);
  }
}

Status AveragingLearner::Impl::flush(Time deadline) {
  begun_ = false;
  FFDL_RETURN_IF_ERROR(learner_->flush(deadline));
  if (period_.empty()) return {};
  FFDL_RETURN_IF_ERROR(exchange());
  return learner_->flush(deadline);
}

AveragingLearner::AveragingLearner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AveragingLearner::~AveragingLearner() = default;

// `server`: its name, or the object.
template <class Server>
Result<std::unique_ptr<AveragingLearner>> AveragingLearner::attach_to(
    const Server& server, Time deadline, const AveragingOptions& options) {
  FFDL_RETURN_IF_ERROR(check_options(options));
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule, make_update_rule(options.rule));
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Learner> learner,
                        Learner::attach(server, deadline, {.slot = options.slot}));
  const ps::Config& config = learner->impl_->region().config();
  FFDL_RETURN_IF_ERROR(check_server(config));
  return std::unique_ptr<AveragingLearner>(new AveragingLearner(
      std::make_unique<Impl>(std::move(learner), config, options, std::move(rule))));
}

Result<std::unique_ptr<AveragingLearner>> AveragingLearner::attach(
    std::string_view name, Time deadline, const AveragingOptions& options) {
  return attach_to(name, deadline, options);
}

Result<std::unique_ptr<AveragingLearner>> AveragingLearner::attach(
    const ParameterServer& server, Time deadline, const AveragingOptions& options) {
  return attach_to(server, deadline, options);
}

Result<std::span<const float>> AveragingLearner::begin_mini_batch(Time deadline) {
  return impl_->begin_mini_batch(deadline);
}

Status AveragingLearner::step(std::span<const float> gradient, SampleRange samples) {
  return impl_->step(gradient, samples);
}

Status AveragingLearner::flush(Time deadline) { return impl_->flush(deadline); }

Status AveragingLearner::detach(Time deadline) {
  FFDL_RETURN_IF_ERROR(impl_->flush(deadline));
  return impl_->learner().detach(deadline);
}

const Learner& AveragingLearner::learner() const { return impl_->learner(); }
AveragingStats AveragingLearner::stats() const { return impl_->stats(); }

}  // namespace ffdl
