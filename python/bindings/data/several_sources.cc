// Data sources that combine several sources, and parts of one.
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "ffdl/data/data_source.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

using Source = std::shared_ptr<DataSource>;

// A data source that is shared with Python.
class SharedSource final : public DataSource {
 public:
  explicit SharedSource(Source source) : source_(std::move(source)) {}

  uint64_t samples() const override { return source_->samples(); }
  SampleFormat format() const override { return source_->format(); }
  SkippedData skipped() const override { return source_->skipped(); }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    return source_->read(indices, batch);
  }

 private:
  const Source source_;
};

// A data set that C++ does not know: sample i is the number first + i.
class NumberSource final : public DataSource {
 public:
  NumberSource(uint64_t samples, uint64_t first) : samples_(samples), first_(first) {}

  uint64_t samples() const override { return samples_; }
  SampleFormat format() const override { return {"<i8", {}, sizeof(uint64_t), true}; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    std::span<std::byte> rest = batch.place(indices.size() * sizeof(uint64_t));
    for (const uint64_t index : indices) {
      const uint64_t number = first_ + index;
      std::memcpy(rest.data(), &number, sizeof number);
      batch.add(rest.first(sizeof number));
      rest = rest.subspan(sizeof number);
    }
    return {};
  }

 private:
  const uint64_t samples_;
  const uint64_t first_;
};

std::vector<std::unique_ptr<DataSource>> shared(const std::vector<Source>& sources) {
  std::vector<std::unique_ptr<DataSource>> owned;
  owned.reserve(sources.size());
  for (const Source& source : sources) owned.push_back(std::make_unique<SharedSource>(source));
  return owned;
}

// Returns parts that keep the whole source alive.
std::vector<Source> split(const Source& whole, const std::vector<double>& weights, uint64_t seed) {
  struct Kept {
    Source whole;
    std::vector<std::unique_ptr<DataSource>> parts;
  };
  const auto kept = std::make_shared<Kept>(Kept{whole, take(split_source(*whole, weights, seed))});
  std::vector<Source> parts;
  for (const auto& part : kept->parts) parts.emplace_back(kept, part.get());
  return parts;
}

}  // namespace

void bind_several_sources(py::module_& module) {
  module.def(
      "join_sources",
      [](const std::vector<Source>& sources) -> Source {
        return take(join_sources(shared(sources)));
      },
      py::arg("sources"),
      "Returns sources of one format, one after the other. Raises\n"
      "InvalidArgument.");
  module.def(
      "mix_sources",
      [](const std::vector<Source>& sources, const std::vector<double>& weights) -> Source {
        return take(mix_sources(shared(sources), weights));
      },
      py::arg("sources"), py::arg("weights"),
      "Combines sources of one format; any run of samples has as many of each as its weight\n"
      "demands (to a 1000th of all). It ends when each has been used up once: sources with\n"
      "larger weights for their size repeat until then. ffdl.data.mix() does it for any data\n"
      "sets. Raises InvalidArgument.");
  module.def(
      "split_source", &split, py::arg("whole"), py::arg("weights"), py::kw_only(),
      py::arg("seed") = 0,
      "Cuts a source into parts by weight, such as [0.9, 0.1] to train and to evaluate with.\n"
      "Each sample is in exactly one of the list's sources, which depends on `seed` and the\n"
      "number of samples. ffdl.data.split() does it for any data set. Raises InvalidArgument,\n"
      "also for a part without samples.");
  module.def(
      "_numbers",
      [](uint64_t samples, uint64_t first) -> Source {
        return std::make_shared<NumberSource>(samples, first);
      },
      py::arg("samples"), py::arg("first") = 0);
}

}  // namespace ffdl::python
