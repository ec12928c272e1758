#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "ffdl/elastic_policy.h"

namespace ffdl {
namespace {

constexpr Duration kDay = std::chrono::hours(24);

SizeDecision stay(const Observation& observation, std::string reason) {
  return {observation.workers, std::move(reason)};
}

// A count that came of a division, where it may be larger than any number of workers.
int to_workers(double count) {
  return static_cast<int>(std::clamp(count, 0.0, static_cast<double>(INT32_MAX)));
}

// What each worker that `larger` has more adds, over what each of `smaller` gives.
double worth(const SizeSpeed& smaller, const SizeSpeed& larger) {
  const double added = (larger.samples_per_s - smaller.samples_per_s) /
                       static_cast<double>(larger.workers - smaller.workers);
  return added / (smaller.samples_per_s / smaller.workers);
}

class EfficiencyPolicy final : public ElasticPolicy {
 public:
  explicit EfficiencyPolicy(const EfficiencyPolicyOptions& options) : options_(options) {}

  SizeDecision decide(const Observation& observation, WallTime /*now*/) const override {
    if (!(observation.samples_per_s > 0) || observation.workers <= 0) {
      return stay(observation, "no speed was measured at this size");
    }
    const SizeSpeed here = {observation.workers, observation.samples_per_s, {}};
    std::optional<SizeSpeed> smaller, larger;
    for (const SizeSpeed& speed : observation.speeds) {
      if (speed.age > options_.trusted_for || !(speed.samples_per_s > 0) || speed.workers <= 0) {
        continue;
      }
      if (speed.workers < here.workers && (!smaller || speed.workers > smaller->workers)) {
        smaller = speed;
      }
      if (speed.workers > here.workers && (!larger || speed.workers < larger->workers)) {
        larger = speed;
      }
    }
    if (smaller) {
      const double last = worth(*smaller, here);
      if (last < options_.shrink_below) {
        return {smaller->workers, fmt::format("workers beyond {} add {:.2f} of one each, below {}",
                                              smaller->workers, last, options_.shrink_below)};
      }
      if (!larger && last <= options_.grow_above) {
        return stay(observation, fmt::format("workers beyond {} add {:.2f} of one each",
                                             smaller->workers, last));
      }
    }
    if (!larger) return {here.workers + 1, "a larger size was not measured; it is tried"};
    const double next = worth(here, *larger);
    if (next <= options_.grow_above) {
      return stay(observation, fmt::format("workers up to {} would add {:.2f} of one each, not "
                                           "above {}",
                                           larger->workers, next, options_.grow_above));
    }
    return {larger->workers, fmt::format("workers up to {} add {:.2f} of one each, above {}",
                                         larger->workers, next, options_.grow_above)};
  }

 private:
  const EfficiencyPolicyOptions options_;
};

// Those that look at one metric.
class MetricPolicy : public ElasticPolicy {
 public:
  explicit MetricPolicy(std::string metric) : metric_(std::move(metric)) {}

  SizeDecision decide(const Observation& observation, WallTime /*now*/) const final {
    const auto found = observation.metrics.find(metric_);
    if (found == observation.metrics.end() || found->second.members == 0 ||
        !std::isfinite(found->second.sum)) {
      return stay(observation, fmt::format("nobody says what '{}' is", metric_));
    }
    return size_for(found->second);
  }

 private:
  virtual SizeDecision size_for(const MetricValue& value) const = 0;

  const std::string metric_;
};

class QueuePolicy final : public MetricPolicy {
 public:
  explicit QueuePolicy(const QueuePolicyOptions& options)
      : MetricPolicy(options.metric), options_(options) {}

 private:
  SizeDecision size_for(const MetricValue& value) const override {
    return {to_workers(std::ceil(value.sum / options_.per_worker)),
            fmt::format("'{}' is {:.6g}, {:.6g} for each worker", options_.metric, value.sum,
                        options_.per_worker)};
  }

  const QueuePolicyOptions options_;
};

class NoisePolicy final : public MetricPolicy {
 public:
  explicit NoisePolicy(const NoisePolicyOptions& options)
      : MetricPolicy(options.metric), options_(options) {}

 private:
  SizeDecision size_for(const MetricValue& value) const override {
    return {std::max(1, to_workers(std::floor(value.mean() / options_.samples_per_worker))),
            fmt::format("batches are of use up to {:.6g} samples, {:.6g} of each worker",
                        value.mean(), options_.samples_per_worker)};
  }

  const NoisePolicyOptions options_;
};

class SchedulePolicy final : public ElasticPolicy {
 public:
  explicit SchedulePolicy(SchedulePolicyOptions options) : options_(std::move(options)) {
    std::sort(options_.sizes.begin(), options_.sizes.end(),
              [](const ScheduledSize& a, const ScheduledSize& b) { return a.from < b.from; });
  }

  SizeDecision decide(const Observation& /*observation*/, WallTime now) const override {
    const Duration since = now.time_since_epoch() + options_.utc_offset;
    const Duration of_day = (since % kDay + kDay) % kDay;
    const ScheduledSize* due = &options_.sizes.back();  // of yesterday
    for (const ScheduledSize& size : options_.sizes) {
      if (size.from <= of_day) due = &size;
    }
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(due->from).count();
    return {due->workers,
            fmt::format("{} from {:02}:{:02} on", due->workers, minutes / 60, minutes % 60)};
  }

 private:
  SchedulePolicyOptions options_;
};

class IdlePolicy final : public ElasticPolicy {
 public:
  explicit IdlePolicy(const IdlePolicyOptions& options) : options_(options) {}

  SizeDecision decide(const Observation& observation, WallTime /*now*/) const override {
    if (!observation.idle_workers) return stay(observation, "nobody says how many are idle");
    const int64_t wanted =
        int64_t{observation.workers} + *observation.idle_workers - options_.keep_idle;
    return {to_workers(static_cast<double>(wanted)),
            fmt::format("{} workers are idle, {} shall be", *observation.idle_workers,
                        options_.keep_idle)};
  }

 private:
  const IdlePolicyOptions options_;
};

// The options that are wrong without being out of any range that a type has.
bool is_above_zero(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

Result<std::unique_ptr<ElasticPolicy>> make_policy(const EfficiencyPolicyOptions& options) {
  if (!std::isfinite(options.grow_above) || !(options.shrink_below <= options.grow_above) ||
      !(options.shrink_below >= 0) || options.trusted_for <= Duration::zero()) {
    return base::invalid_argument(
        "make an efficiency policy: grow_above is {}, shrink_below {}, trusted_for {} s; give 0 <= "
        "shrink_below <= grow_above, and above 0 s",
        options.grow_above, options.shrink_below,
        std::chrono::duration<double>(options.trusted_for).count());
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<EfficiencyPolicy>(options));
}

Result<std::unique_ptr<ElasticPolicy>> make_policy(const QueuePolicyOptions& options) {
  if (options.metric.empty() || !is_above_zero(options.per_worker)) {
    return base::invalid_argument(
        "make a queue policy: metric '{}', per_worker {}; give a name, and above 0", options.metric,
        options.per_worker);
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<QueuePolicy>(options));
}

Result<std::unique_ptr<ElasticPolicy>> make_policy(const NoisePolicyOptions& options) {
  if (options.metric.empty() || !is_above_zero(options.samples_per_worker)) {
    return base::invalid_argument(
        "make a noise policy: metric '{}', samples_per_worker {}; give a name, and above 0",
        options.metric, options.samples_per_worker);
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<NoisePolicy>(options));
}

Result<std::unique_ptr<ElasticPolicy>> make_policy(const SchedulePolicyOptions& options) {
  if (options.sizes.empty() || options.utc_offset <= -kDay || options.utc_offset >= kDay) {
    return base::invalid_argument(
        "make a schedule policy: {} sizes, utc_offset {} s; give one size or more, and less than a "
        "day",
        options.sizes.size(), std::chrono::duration<double>(options.utc_offset).count());
  }
  for (const ScheduledSize& size : options.sizes) {
    if (size.from < Duration::zero() || size.from >= kDay || size.workers < 0) {
      return base::invalid_argument(
          "make a schedule policy: {} workers from {} s after midnight on; give 0 or more, within "
          "a "
          "day",
          size.workers, std::chrono::duration<double>(size.from).count());
    }
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<SchedulePolicy>(options));
}

Result<std::unique_ptr<ElasticPolicy>> make_policy(const IdlePolicyOptions& options) {
  if (options.keep_idle < 0) {
    return base::invalid_argument("make an idle policy: keep_idle is {}; give 0 or more",
                                  options.keep_idle);
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<IdlePolicy>(options));
}

}  // namespace ffdl
