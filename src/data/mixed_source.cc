#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/same_format.h"
#include "data/weighted_cycle.h"
#include "ffdl/data_source.h"

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

  // One call for each source, so that what lies together is read together.
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    std::vector<WeightedCycle::Owned> asked;
    asked.reserve(indices.size());
    for (const uint64_t index : indices) {
      if (index >= samples_) {
        return base::invalid_argument("read sample {} of a mixture: it has {}; ask for one of them",
                                      index, samples_);
      }
      asked.push_back(cycle_.at(index));
    }
    const size_t before = batch.size();
    std::vector<size_t> places(indices.size());  // of each that was asked for, in the batch
    std::vector<uint64_t> numbers;
    size_t read = 0;
    for (size_t owner = 0; owner < sources_.size(); ++owner) {
      numbers.clear();
      for (size_t i = 0; i < asked.size(); ++i) {
        if (asked[i].owner != owner) continue;
        places[i] = read++;
        numbers.push_back(asked[i].number % sources_[owner]->samples());
      }
      if (numbers.empty()) continue;
      FFDL_RETURN_IF_ERROR(sources_[owner]->read(numbers, batch));
      if (batch.size() == before + read) continue;
      return base::invalid_argument(
          "read {} samples of source {} of a mixture: it gave {}; let its read() add or skip one "
          "for each",
          numbers.size(), owner, batch.size() - before - (read - numbers.size()));
    }
    batch.arrange(before, places);
    return {};
  }

  SkippedData skipped() const override { return data::skipped_in(sources_); }

 private:
  const std::vector<std::unique_ptr<DataSource>> sources_;
  const WeightedCycle cycle_;
  const uint64_t samples_;
};

}  // namespace

OpenedSource mix_sources(std::vector<std::unique_ptr<DataSource>> sources,
                         const std::vector<double>& weights) {
  if (sources.empty() || sources.size() != weights.size()) {
    return base::invalid_argument(
        "mix data sources: there are {} and {} weights; give one for each", sources.size(),
        weights.size());
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
