#include "cluster/simulator/application.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"

namespace ffdl::cluster {
namespace {

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Returns the first rotation in lexicographic order. Rings look the same from each of their nodes,
// so it represents all.
std::vector<int> first_rotation(std::span<const int> placement) {
  std::vector<int> turned(placement.begin(), placement.end());
  std::vector<int> first = turned;
  for (size_t i = 1; i < turned.size(); ++i) {
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    first = std::min(first, turned);
  }
  return first;
}

// Returns the largest local batch that fits a device. A local batch that was measured on few nodes
// only, though its global batch would allow many, did not fit into a device's memory there.
int64_t largest_local_batch(const ApplicationProfile& profile, int64_t global_max) {
  int64_t spread_max = 0, placed_max = 0;
  int fewest = INT32_MAX;
  for (const MeasuredStep& step : profile.spread) {
    spread_max = std::max(spread_max, step.local_batch);
    fewest = std::min(fewest, std::accumulate(step.placement.begin(), step.placement.end(), 0));
  }
  for (const MeasuredStep& step : profile.placed) {
    const bool left_out = !profile.spread.empty() && step.local_batch > spread_max &&
                          step.local_batch * fewest <= global_max;
    if (!left_out) placed_max = std::max(placed_max, step.local_batch);
  }
  return placed_max;
}

}  // namespace

BatchSplit BatchLimits::split(int64_t batch, int workers) const {
  if (is_listed) return {.local = batch, .is_whole = true};
  const int64_t each = divided_up(batch, workers);
  int64_t accumulated = divided_up(each, local_max) - 1;
  if (workers == 1 && batch > global_min) accumulated = std::max<int64_t>(accumulated, 1);
  const int64_t parts = accumulated + 1;
  return {std::min(divided_up(each, parts), global_max / (workers * parts)), accumulated};
}

Result<Application> Application::from_table(const ApplicationProfile& profile) {
  Application app;
  app.name_ = profile.name;
  app.table_ = profile.throughputs;
  for (const auto& [batch, rates] : profile.throughputs) {
    for (const auto& [workers, rate] : rates) {
      if (workers > 0 && batch > 0 && rate > 0 && std::isfinite(rate)) continue;
      return base::invalid_argument(
          "use profile '{}': {} steps per second with batch {} on {} workers; leave out sizes that "
          "are not possible",
          profile.name, rate, batch, workers);
    }
    app.batches_.push_back(batch);
    app.statistics_.push_back({{INFINITY, 0, 1}});  // each sample is worth the same
  }
  app.progress_ = {INFINITY};
  const int64_t least = app.batches_.front(), most = app.batches_.back();
  app.limits_ = {least, most, least, most, true};
  return app;
}

std::optional<int64_t> Application::best_batch(int workers) const {
  std::optional<int64_t> best;
  double best_rate = 0;
  for (const auto& [batch, rates] : table_) {
    const auto found = rates.find(workers);
    if (found == rates.end()) continue;
    const double rate = found->second * static_cast<double>(batch);
    if (rate > best_rate) best_rate = rate, best = batch;
  }
  return best;
}

int Application::least_workers(int64_t batch) const {
  const auto row = table_.find(batch);
  return row == table_.end() || row->second.empty() ? 1 : row->second.begin()->first;
}

Result<Application> Application::from_profile(const ApplicationProfile& profile) {
  if (!profile.throughputs.empty()) return from_table(profile);
  if (profile.placed.empty() || profile.epochs.empty() || profile.epochs.begin()->second.empty()) {
    return base::invalid_argument(
        "use profile '{}': no step times or no epochs; measure at least one of each", profile.name);
  }
  Application app;
  app.name_ = profile.name;
  size_t epochs = SIZE_MAX;
  for (const auto& [batch, statistics] : profile.epochs) {
    app.batches_.push_back(batch);
    app.statistics_.push_back(statistics);
    epochs = std::min(epochs, statistics.size());
  }
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    double least = app.statistics_[0][epoch].progress;
    for (const auto& one : app.statistics_) least = std::min(least, one[epoch].progress);
    app.progress_.push_back(least);
  }
  std::map<std::array<double, 3>, std::pair<std::array<double, 2>, double>> sums;
  app.limits_.local_min = INT64_MAX;
  for (const MeasuredStep& step : profile.placed) {
    app.limits_.local_min = std::min(app.limits_.local_min, step.local_batch);
    app.placed_[first_rotation(step.placement)][step.local_batch] = {step.step_s, step.sync_s};
    auto& [sum, count] = sums[{static_cast<double>(step.placement.size()),
                               std::accumulate(step.placement.begin(), step.placement.end(), 0.0),
                               static_cast<double>(step.local_batch)}];
    sum[0] += step.step_s;
    sum[1] += step.sync_s;
    count += 1;
  }
  for (const auto& [at, total] : sums) {
    app.samples_.push_back({at, {total.first[0] / total.second, total.first[1] / total.second}});
  }
  for (const MeasuredStep& step : profile.spread) {
    app.samples_.push_back({{static_cast<double>(step.placement.size()),
                             std::accumulate(step.placement.begin(), step.placement.end(), 0.0),
                             static_cast<double>(step.local_batch)},
                            {step.step_s, step.sync_s}});
  }
  app.limits_.global_min = app.batches_.front();
  app.limits_.global_max = app.batches_.back();
  app.limits_.local_max = largest_local_batch(profile, app.limits_.global_max);
  return app;
}

GradientStatistics Application::gradients(int64_t batch, size_t epoch) const {
  const auto above = std::lower_bound(batches_.begin(), batches_.end(), batch);
  const auto upper = static_cast<size_t>(
      std::min(above - batches_.begin(), static_cast<ptrdiff_t>(batches_.size()) - 1));
  const size_t lower = batches_[upper] <= batch || upper == 0 ? upper : upper - 1;
  const EpochStatistics& low = statistics_[lower][epoch];
  const EpochStatistics& high = statistics_[upper][epoch];
  if (lower == upper) return {low.grad_sqr, low.grad_var};
  const double share = static_cast<double>(batch - batches_[lower]) /
                       static_cast<double>(batches_[upper] - batches_[lower]);
  return {low.grad_sqr + share * (high.grad_sqr - low.grad_sqr),
          low.grad_var + share * (high.grad_var - low.grad_var)};
}

std::optional<StepTime> Application::placed_time(const std::vector<int>& placement,
                                                 int64_t local_batch) const {
  const auto& times = placed_.at(placement);
  const auto above = times.lower_bound(local_batch);
  if (above == times.end()) return std::nullopt;
  const auto& [high_batch, high] = *above;
  if (high_batch == local_batch) return high;
  if (above == times.begin()) return std::nullopt;
  const auto& [low_batch, low] = *std::prev(above);
  const double share =
      static_cast<double>(local_batch - low_batch) / static_cast<double>(high_batch - low_batch);
  return StepTime{low.step_s + share * (high.step_s - low.step_s),
                  low.sync_s + share * (high.sync_s - low.sync_s)};
}

std::optional<StepTime> Application::step_time(std::span<const int> placement,
                                               int64_t local_batch) {
  if (is_table()) {
    const auto row = table_.find(local_batch);
    if (row == table_.end()) return std::nullopt;
    const auto cell = row->second.find(std::accumulate(placement.begin(), placement.end(), 0));
    if (cell == row->second.end()) return std::nullopt;
    return StepTime{1 / cell->second, 0};
  }
  const std::vector<int> ring = first_rotation(placement);
  const auto [entry, is_new] = known_.try_emplace({ring, local_batch});
  if (!is_new) return entry->second;
  if (placed_.contains(ring)) {
    entry->second = placed_time(ring, local_batch);
    return entry->second;
  }
  const auto value = interpolate(
      samples_, {static_cast<double>(ring.size()), std::accumulate(ring.begin(), ring.end(), 0.0),
                 static_cast<double>(local_batch)});
  if (value) entry->second = StepTime{(*value)[0], (*value)[1]};
  return entry->second;
}

}  // namespace ffdl::cluster
