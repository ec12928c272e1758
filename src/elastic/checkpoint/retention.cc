#include "elastic/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ffdl::elastic {

std::vector<std::string> choose_removals(std::span<const StoredCheckpoint> stored,
                                         const Retention& retention) {
  const auto newest = std::find_if(stored.begin(), stored.end(), [&](const StoredCheckpoint& one) {
    return one.folder == retention.newest;
  });
  if (newest == stored.end()) return {};  // without it nothing is certain
  std::vector<const StoredCheckpoint*> published;
  std::vector<std::string> removals;
  for (const StoredCheckpoint& one : stored) {
    if (one.label.job != retention.job || &one == &*newest) continue;
    if (one.sequence) {
      if (*one.sequence < newest->sequence.value_or(0)) published.push_back(&one);
    } else if (one.label.order() < newest->label.order()) {
      removals.push_back(one.folder);
    }
  }
  std::sort(published.begin(), published.end(),
            [](const auto* a, const auto* b) { return *a->sequence > *b->sequence; });
  const auto last = std::min(published.size(), static_cast<size_t>(retention.keep_last - 1));
  std::set<std::string_view> kept = {newest->folder};
  for (size_t i = 0; i < last; ++i) kept.insert(published[i]->folder);

  std::vector<const StoredCheckpoint*> best;
  for (const StoredCheckpoint* one : published) {
    if (one->metric && !std::isnan(*one->metric)) best.push_back(one);
  }
  if (newest->metric && !std::isnan(*newest->metric)) best.push_back(&*newest);
  std::stable_sort(best.begin(), best.end(),
                   [](const auto* a, const auto* b) { return *a->metric < *b->metric; });
  best.resize(std::min(best.size(), static_cast<size_t>(retention.keep_best)));
  for (const StoredCheckpoint* one : best) kept.insert(one->folder);

  for (const StoredCheckpoint* one : published) {
    if (!kept.contains(one->folder)) removals.push_back(one->folder);
  }
  return removals;
}

}  // namespace ffdl::elastic
