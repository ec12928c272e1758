#include "scaling/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ffdl::scaling {

void MeasuredSteps::start_anew(uint64_t generation) {
  began_s_.reset();
  sums_ = {};
  sums_.generation = generation;
}

void MeasuredSteps::begin(double now_s) {
  const uint64_t generation = sums_.generation;
  sums_ = {};
  sums_.generation = generation;
  communication_ = {};
  of_steps_.assign(metrics_.size(), {});
  began_s_ = now_s;
}

std::optional<Measurement> MeasuredSteps::add(uint64_t step, const StepRecords& records,
                                              double now_s) {
  sums_.workers = records.size();
  sums_.step = step;
  ++sums_.steps;
  const uint64_t samples_before = sums_.samples;
  std::vector<MetricValue> said(metrics_.size());
  for (int rank = 0; rank < records.size(); ++rank) {
    sums_.samples += records.samples(rank);
    const std::byte* place = records.of(rank).data();
    MeterWord word;
    std::memcpy(&word, place, sizeof word);
    place += sizeof word;
    sums_.host_memory_bytes = std::max(sums_.host_memory_bytes, word.host_memory_bytes);
    if (std::isfinite(word.communication_s)) {
      communication_.sum += word.communication_s;
      ++communication_.count;
    }
    for (MetricValue& metric : said) {
      double value = 0;
      std::memcpy(&value, place, sizeof value);
      place += sizeof value;
      if (!std::isfinite(value)) continue;
      metric.sum += value;
      ++metric.members;
    }
  }
  for (size_t i = 0; i < said.size(); ++i) {
    if (said[i].members == 0) continue;
    of_steps_[i].sum += said[i].sum;
    ++of_steps_[i].count;
    MetricValue& told = sums_.metrics[metrics_[i]];
    told.sum = of_steps_[i].sum / static_cast<double>(of_steps_[i].count);
    told.members = std::max(told.members, said[i].members);
  }
  const uint64_t batch = sums_.samples - samples_before;
  if (sums_.steps == 1) sums_.batch = batch;
  if (sums_.batch != batch) sums_.batch = 0;
  if (sums_.steps < steps_) return std::nullopt;
  sums_.seconds = now_s - *began_s_;
  const double step_s = sums_.seconds / static_cast<double>(sums_.steps);
  if (communication_.count > 0 && step_s > 0) {
    const double mean_s = communication_.sum / static_cast<double>(communication_.count);
    sums_.communication_share = std::clamp(mean_s / step_s, 0.0, 1.0);
  }
  const Measurement measured = sums_;
  begin(now_s);
  return measured;
}

}  // namespace ffdl::scaling
