#include "nlc/device/batch_plan.h"

namespace nlc {

void BatchPlanner::make(const Gathered& mini_batch, BatchPlan& plan) {
  const Features& features = mini_batch.features;
  const std::size_t count = features.rows.size();
  plan.rows.clear();
  plan.place.clear();
  plan.row_ends.clear();  // first holds the number of each row's uses
  for (const uint64_t row : features.rows) {
    uint32_t& place = places_[row];
    if (place == kNowhere) {
      place = static_cast<uint32_t>(plan.rows.size());
      plan.rows.push_back(row);
      plan.row_ends.push_back(0);
    }
    plan.place.push_back(place);
    ++plan.row_ends[place];
  }
  for (const uint64_t row : plan.rows) places_[row] = kNowhere;

  next_.clear();
  uint32_t end = 0;
  for (uint32_t& row_end : plan.row_ends) {
    next_.push_back(end);
    end += row_end;
    row_end = end;
  }
  plan.factors = features.factors;
  plan.text_ends.assign(features.ends.begin(), features.ends.end());
  plan.labels.assign(mini_batch.labels.begin(), mini_batch.labels.end());
  plan.use_texts.resize(count);
  plan.use_factors.resize(count);
  std::size_t feature = 0;
  for (uint32_t text = 0; text < plan.texts(); ++text) {
    for (; feature < plan.text_ends[text]; ++feature) {
      const uint32_t use = next_[plan.place[feature]]++;
      plan.use_texts[use] = text;
      plan.use_factors[use] = plan.factors[feature];
    }
  }
}

}  // namespace nlc
