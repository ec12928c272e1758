#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/errors.h"
#include "data/formats/same_format.h"
#include "data/order/asked_samples.h"
#include "ffdl/data/data_source.h"

namespace ffdl {
namespace {

using base::invalid_argument;

class JoinedSource final : public DataSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<DataSource>> sources)
      : sources_(std::move(sources)), format_(sources_[0]->format()) {
    uint64_t bytes = 0;
    for (const auto& source : sources_) {
      ends_.push_back(samples() + source->samples());
      bytes += source->samples() * source->format().bytes;
    }
    if (!format_.is_fixed && samples() > 0) format_.bytes = bytes / samples();
  }

  uint64_t samples() const override { return ends_.empty() ? 0 : ends_.back(); }
  SampleFormat format() const override { return format_; }

  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    data::AskedSamples asked;
    size_t source = 0;
    uint64_t begin = 0;  // first sample of that source
    for (const uint64_t index : indices) {
      if (index < begin || index >= ends_[source]) {
        const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
        if (end == ends_.end()) {
          return invalid_argument("read sample {}: there are {} samples; ask for one of them",
                                  index, samples());
        }
        source = static_cast<size_t>(end - ends_.begin());
        begin = source == 0 ? 0 : ends_[source - 1];
      }
      asked.add(source, index - begin);
    }
    return asked.read(sources_, "joined sources", batch);
  }

  SkippedData skipped() const override { return data::skipped_in(sources_); }

 private:
  const std::vector<std::unique_ptr<DataSource>> sources_;
  SampleFormat format_;
  std::vector<uint64_t> ends_{};  // by source: the number after its last sample
};

}  // namespace

Result<std::unique_ptr<DataSource>> join_sources(std::vector<std::unique_ptr<DataSource>> sources) {
  FFDL_RETURN_IF_ERROR(data::have_one_format(sources, "join data sources"));
  uint64_t samples = 0;
  for (const auto& source : sources) samples += source->samples();
  if (samples == 0) {
    const std::string why = data::skipped_in(sources).first;
    return invalid_argument("open a data set: there is no sample in its {} files{}; name others",
                            sources.size(), why.empty() ? "" : fmt::format(" ({})", why));
  }
  if (sources.size() == 1) return std::move(sources[0]);
  return std::unique_ptr<DataSource>(std::make_unique<JoinedSource>(std::move(sources)));
}

}  // namespace ffdl
