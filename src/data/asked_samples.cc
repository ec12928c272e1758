#include "data/asked_samples.h"

#include "base/errors.h"

namespace ffdl::data {

void AskedSamples::add(size_t source, uint64_t number) {
  OfSource& asked = asked_[source];
  asked.numbers.push_back(number);
  asked.places.push_back(count_++);
}

Status AskedSamples::read(const std::vector<std::unique_ptr<DataSource>>& sources,
                          std::string_view whole, SampleBatch& batch) const {
  // What one source gives is in order, and may go where it belongs at once.
  const bool in_parts = asked_.size() > 1;
  const SampleBatch::Arranging begun =
      in_parts ? batch.begin_arranging() : SampleBatch::Arranging{batch.size()};
  std::vector<size_t> read_as(count_);  // of each that was asked for, its place in what is read
  size_t read = 0;
  for (const auto& [source, asked] : asked_) {
    FFDL_RETURN_IF_ERROR(sources[source]->read(asked.numbers, batch));
    if (batch.size() != begun.first + read + asked.numbers.size()) {
      return base::invalid_argument(
          "read {} samples of source {} of {}: it gave {}; let its read() add or skip one for each",
          asked.numbers.size(), source, whole, batch.size() - begun.first - read);
    }
    for (const size_t place : asked.places) read_as[place] = read++;
  }
  if (in_parts) batch.arrange(begun, read_as);
  return {};
}

}  // namespace ffdl::data
