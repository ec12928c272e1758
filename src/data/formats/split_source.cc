#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "data/order/permutation.h"
#include "data/order/weighted_cycle.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using data::WeightedCycle;

// The samples of one owner of a cycle. In each cycle, a permutation of seed and cycle assigns
// samples to slots. So no part is every tenth sample.
class PartSource final : public DataSource {
 public:
  PartSource(const DataSource& whole, WeightedCycle cycle, size_t part, uint64_t seed)
      : whole_(whole),
        cycle_(std::move(cycle)),
        part_(part),
        seed_(seed),
        samples_(cycle_.owned(part, whole.samples())) {}

  uint64_t samples() const override { return samples_; }
  SampleFormat format() const override { return whole_.format(); }
  SkippedData skipped() const override { return whole_.skipped(); }

  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    std::vector<uint64_t> places;
    places.reserve(indices.size());
    for (const uint64_t index : indices) {
      if (index >= samples_) {
        return base::invalid_argument("read sample {} of part {}: it has {}; ask for one of them",
                                      index, part_, samples_);
      }
      const uint64_t place = cycle_.place(part_, index);
      const uint64_t number = place / WeightedCycle::kSlots;
      const uint64_t first = number * WeightedCycle::kSlots;
      const uint64_t size = std::min(WeightedCycle::kSlots, whole_.samples() - first);
      const data::Permutation order(size, data::mix(data::mix(seed_) + number));
      places.push_back(first + order.at(place - first));
    }
    return whole_.read(places, batch);
  }

 private:
  const DataSource& whole_;
  const WeightedCycle cycle_;
  const size_t part_;
  const uint64_t seed_;
  const uint64_t samples_;
};

}  // namespace

Result<std::vector<std::unique_ptr<DataSource>>> split_source(const DataSource& whole,
                                                              const std::vector<double>& weights,
                                                              uint64_t seed) {
  FFDL_ASSIGN_OR_RETURN(const WeightedCycle cycle,
                        WeightedCycle::make(weights, "split a data source"));
  std::vector<std::unique_ptr<DataSource>> parts;
  for (size_t part = 0; part < weights.size(); ++part) {
    parts.push_back(std::make_unique<PartSource>(whole, cycle, part, seed));
    if (parts.back()->samples() > 0) continue;
    return base::invalid_argument(
        "split a data source: part {} of {} has none of the {} samples; split a larger data "
        "source, or give this part more weight",
        part, weights.size(), whole.samples());
  }
  return parts;
}

}  // namespace ffdl
