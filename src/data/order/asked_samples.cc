#include "data/order/asked_samples.h"

#include "base/errors.h"

namespace ffdl::data {

void AskedSamples::add(size_t source, uint64_t number) {
  OfSource& asked = asked_[source];
  asked.numbers.push_back(number);
  asked.places.push_back(count_++);
}

Status AskedSamples::read(const std::vector<std::unique_ptr<DataSource>>& sources,
                          std::string_view whole, SampleBatch& batch) const {
  // The samples of a single source arrive in order, so they go to their places at once.
  const bool in_parts = asked_.size() > 1;
  const size_t first = in_parts ? batch.begin_arranging() : batch.size();
  std::vector<size_t> read_as(count_);  // index in reading order, by request
  size_t read = 0;
  for (const auto& [source, asked] : asked_) {
    FFDL_RETURN_IF_ERROR(sources[source]->read(asked.numbers, batch));
    if (batch.size() != first + read + asked.numbers.size()) {
      return base::invalid_argument(
          "read {} samples of source {} of {}: it returned {}; let its read() add or skip one "
          "sample for each number",
          asked.numbers.size(), source, whole, batch.size() - first - read);
    }
    for (const size_t place : asked.places) read_as[place] = read++;
  }
  if (in_parts) batch.arrange(first, read_as);
  return {};
}

}  // namespace ffdl::data
