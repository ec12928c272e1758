#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/same_format.h"
#include "data/order/asked_samples.h"
#include "data/order/weighted_cycle.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using data::WeightedCycle;

class MixedSource final : public DataSource {
 public:
  MixedSource(std::vector<std::unique_ptr<DataSource>> sources, WeightedCycle cycle,
              uint64_t samples)
      : sources_(std::move(sources)), cycle_(std::move(cycle)), samples_(samples) {}

  uint64_t samples() const override { return samples_; }

  SampleFormat format() const override {
    SampleFormat format = sources_[0]->format();
    for (const auto& source : sources_)
      format.bytes = std::max(format.bytes, source->format().bytes);
    return format;
  }

  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    data::AskedSamples asked;
    for (const uint64_t index : indices) {
      if (index >= samples_) {
        return base::invalid_argument("read sample {} of a mixture: it has {}; ask for one of them",
                                      index, samples_);
      }
      const WeightedCycle::Owned owned = cycle_.at(index);
      asked.add(owned.owner, owned.number % sources_[owned.owner]->samples());
    }
    return asked.read(sources_, "a mixture", batch);
  }

  SkippedData skipped() const override { return data::skipped_in(sources_); }

 private:
  const std::vector<std::unique_ptr<DataSource>> sources_;
  const WeightedCycle cycle_;
  const uint64_t samples_;
};

}  // namespace

Result<std::unique_ptr<DataSource>> mix_sources(std::vector<std::unique_ptr<DataSource>> sources,
                                                const std::vector<double>& weights) {
  if (sources.empty() || sources.size() != weights.size()) {
    return base::invalid_argument(
        "mix data sources: there are {} sources and {} weights; give one weight for each source",
        sources.size(), weights.size());
  }
  FFDL_RETURN_IF_ERROR(data::have_one_format(sources, "mix data sources"));
  FFDL_ASSIGN_OR_RETURN(WeightedCycle cycle, WeightedCycle::make(weights, "mix data sources"));
  uint64_t samples = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]->samples() == 0) {
      return base::invalid_argument("mix data sources: source {} has no samples; leave it out", i);
    }
    samples = std::max(samples, cycle.place(i, sources[i]->samples() - 1) + 1);
  }
  return std::unique_ptr<DataSource>(
      std::make_unique<MixedSource>(std::move(sources), std::move(cycle), samples));
}

}  // namespace ffdl
