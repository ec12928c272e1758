#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/errors.h"
#include "ffdl/scaling/elastic_policy.h"

namespace ffdl {
namespace {

constexpr Duration kDay = std::chrono::hours(24);

SizeDecision stay(const Observation& observation, std::string reason) {
  return {observation.workers, std::move(reason)};
}

// Converts the result of a division, which may be larger than any number of workers.
int to_workers(double count) {
  return static_cast<int>(std::clamp(count, 0.0, static_cast<double>(INT32_MAX)));
}

// A number of workers, and their speed.
struct SizeRate {
  int workers = 0;
  double samples_per_s = 0;
};

// Returns the gain of each further worker of `larger`, relative to each worker of `smaller`.
double worth(const SizeRate& smaller, const SizeRate& larger) {
  const double added = (larger.samples_per_s - smaller.samples_per_s) /
                       static_cast<double>(larger.workers - smaller.workers);
  return added / (smaller.samples_per_s / smaller.workers);
}

class EfficiencyPolicy final : public ElasticPolicy {
 public:
  EfficiencyPolicy(double grow_above, double shrink_below, Duration trusted_for)
      : grow_above_(grow_above), shrink_below_(shrink_below), trusted_for_(trusted_for) {}

  SizeDecision decide(const Observation& observation) const override {
    if (!(observation.samples_per_s > 0) || observation.workers <= 0) {
      return stay(observation, "no speed was measured at this size");
    }
    const SizeRate here = {observation.workers, observation.samples_per_s};
    std::optional<SizeRate> smaller, larger;
    for (const StepMeasurement& speed : observation.speeds) {
      const SizeRate rate = {speed.workers, speed.samples_per_s()};
      if (speed.age > trusted_for_ || !(rate.samples_per_s > 0) || rate.workers <= 0) continue;
      if (rate.workers < here.workers && (!smaller || rate.workers > smaller->workers)) {
        smaller = rate;
      }
      if (rate.workers > here.workers && (!larger || rate.workers < larger->workers)) {
        larger = rate;
      }
    }
    if (smaller) {
      const double last = worth(*smaller, here);
      if (last < shrink_below_) {
        return {smaller->workers, fmt::format("workers beyond {} add {:.2f} of one each, below {}",
                                              smaller->workers, last, shrink_below_)};
      }
      if (!larger && last <= grow_above_) {
        return stay(observation, fmt::format("workers beyond {} add {:.2f} of one each",
                                             smaller->workers, last));
      }
    }
    if (!larger) return {here.workers + 1, "a larger size was not measured; it is tried"};
    const double next = worth(here, *larger);
    if (next <= grow_above_) {
      return stay(observation, fmt::format("workers up to {} would add {:.2f} of one each, not "
                                           "above {}",
                                           larger->workers, next, grow_above_));
    }
    return {larger->workers, fmt::format("workers up to {} add {:.2f} of one each, above {}",
                                         larger->workers, next, grow_above_)};
  }

 private:
  const double grow_above_;
  const double shrink_below_;
  const Duration trusted_for_;
};

// The base of policies that read one metric.
class MetricPolicy : public ElasticPolicy {
 public:
  explicit MetricPolicy(std::string metric) : metric_(std::move(metric)) {}

  SizeDecision decide(const Observation& observation) const final {
    const auto found = observation.metrics.find(metric_);
    if (found == observation.metrics.end() || found->second.members == 0 ||
        !std::isfinite(found->second.sum)) {
      return stay(observation, fmt::format("no member reports '{}'", metric_));
    }
    return size_for(found->second);
  }

 protected:
  const std::string& metric() const { return metric_; }

 private:
  virtual SizeDecision size_for(const MetricValue& value) const = 0;

  const std::string metric_;
};

class QueuePolicy final : public MetricPolicy {
 public:
  QueuePolicy(double per_worker, std::string metric)
      : MetricPolicy(std::move(metric)), per_worker_(per_worker) {}

 private:
  SizeDecision size_for(const MetricValue& value) const override {
    return {
        to_workers(std::ceil(value.sum / per_worker_)),
        fmt::format("'{}' is {:.6g}, {:.6g} for each worker", metric(), value.sum, per_worker_)};
  }

  const double per_worker_;
};

class NoisePolicy final : public MetricPolicy {
 public:
  NoisePolicy(double samples_per_worker, std::string metric)
      : MetricPolicy(std::move(metric)), samples_per_worker_(samples_per_worker) {}

 private:
  SizeDecision size_for(const MetricValue& value) const override {
    return {std::max(1, to_workers(std::floor(value.mean() / samples_per_worker_))),
            fmt::format("batches are useful up to {:.6g} samples, {:.6g} of each worker",
                        value.mean(), samples_per_worker_)};
  }

  const double samples_per_worker_;
};

class SchedulePolicy final : public ElasticPolicy {
 public:
  SchedulePolicy(std::vector<std::pair<Duration, int>> sizes, Duration utc_offset)
      : sizes_(std::move(sizes)), utc_offset_(utc_offset) {
    std::stable_sort(sizes_.begin(), sizes_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  SizeDecision decide(const Observation& observation) const override {
    const Duration since = observation.at.time_since_epoch() + utc_offset_;
    const Duration of_day = (since % kDay + kDay) % kDay;
    auto [from, workers] = sizes_.back();  // yesterday's last size
    for (const auto& size : sizes_) {
      if (size.first <= of_day) std::tie(from, workers) = size;
    }
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(from).count();
    return {workers, fmt::format("{} from {:02}:{:02} on", workers, minutes / 60, minutes % 60)};
  }

 private:
  std::vector<std::pair<Duration, int>> sizes_;
  const Duration utc_offset_;
};

class IdlePolicy final : public ElasticPolicy {
 public:
  explicit IdlePolicy(int keep_idle) : keep_idle_(keep_idle) {}

  SizeDecision decide(const Observation& observation) const override {
    if (!observation.idle_workers)
      return stay(observation, "the number of idle workers is unknown");
    const int64_t wanted = int64_t{observation.workers} + *observation.idle_workers - keep_idle_;
    return {
        to_workers(static_cast<double>(wanted)),
        fmt::format("{} workers are idle, {} are to be", *observation.idle_workers, keep_idle_)};
  }

 private:
  const int keep_idle_;
};

// Returns true for a finite value above 0.
bool is_above_zero(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

Result<std::unique_ptr<ElasticPolicy>> efficiency_policy(double grow_above, double shrink_below,
                                                         Duration trusted_for) {
  if (!std::isfinite(grow_above) || !(shrink_below <= grow_above) || !(shrink_below >= 0) ||
      trusted_for <= Duration::zero()) {
    return base::invalid_argument(
        "make an efficiency policy: grow_above is {}, shrink_below {}, trusted_for {} s; give 0 <= "
        "shrink_below <= grow_above, and trusted_for above 0 s",
        grow_above, shrink_below, std::chrono::duration<double>(trusted_for).count());
  }
  return std::unique_ptr<ElasticPolicy>(
      std::make_unique<EfficiencyPolicy>(grow_above, shrink_below, trusted_for));
}

Result<std::unique_ptr<ElasticPolicy>> queue_policy(double per_worker, std::string metric) {
  if (metric.empty() || !is_above_zero(per_worker)) {
    return base::invalid_argument(
        "make a queue policy: metric is '{}' and per_worker is {}; give the name of a metric, and "
        "a number above 0",
        metric, per_worker);
  }
  return std::unique_ptr<ElasticPolicy>(
      std::make_unique<QueuePolicy>(per_worker, std::move(metric)));
}

Result<std::unique_ptr<ElasticPolicy>> noise_policy(double samples_per_worker, std::string metric) {
  if (metric.empty() || !is_above_zero(samples_per_worker)) {
    return base::invalid_argument(
        "make a noise policy: metric is '{}' and samples_per_worker is {}; give the name of a "
        "metric, and a number above 0",
        metric, samples_per_worker);
  }
  return std::unique_ptr<ElasticPolicy>(
      std::make_unique<NoisePolicy>(samples_per_worker, std::move(metric)));
}

Result<std::unique_ptr<ElasticPolicy>> schedule_policy(std::vector<std::pair<Duration, int>> sizes,
                                                       Duration utc_offset) {
  if (sizes.empty() || utc_offset <= -kDay || utc_offset >= kDay) {
    return base::invalid_argument(
        "make a schedule policy: {} sizes, utc_offset {} s; give one size or more, and an offset "
        "of less than a day",
        sizes.size(), std::chrono::duration<double>(utc_offset).count());
  }
  for (const auto& [from, workers] : sizes) {
    if (from < Duration::zero() || from >= kDay || workers < 0) {
      return base::invalid_argument(
          "make a schedule policy: {} workers from {} s after midnight on; give 0 workers or more, "
          "and a time within a day",
          workers, std::chrono::duration<double>(from).count());
    }
  }
  return std::unique_ptr<ElasticPolicy>(
      std::make_unique<SchedulePolicy>(std::move(sizes), utc_offset));
}

Result<std::unique_ptr<ElasticPolicy>> idle_policy(int keep_idle) {
  if (keep_idle < 0) {
    return base::invalid_argument("make an idle policy: keep_idle is {}; give 0 or more",
                                  keep_idle);
  }
  return std::unique_ptr<ElasticPolicy>(std::make_unique<IdlePolicy>(keep_idle));
}

}  // namespace ffdl
