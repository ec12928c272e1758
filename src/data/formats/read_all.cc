#include "data/formats/read_all.h"

#include "base/errors.h"

namespace ffdl {

Status data::read_all(const DataSource& source, std::span<const uint64_t> indices,
                      SampleBatch& batch) {
  FFDL_RETURN_IF_ERROR(source.read(indices, batch));
  if (batch.size() == indices.size()) return {};
  return base::invalid_argument(
      "read {} samples: the data source returned {}; let its read() add or skip one sample for "
      "each number",
      indices.size(), batch.size());
}

Status data::check_room(size_t samples, uint64_t bytes, size_t room) {
  if (bytes <= room) return {};
  return base::invalid_argument(
      "read {} samples into memory of {} bytes: the samples have {} bytes; give larger memory, or "
      "ask for fewer samples",
      samples, room, bytes);
}

Result<std::span<const std::byte>> DataSource::read_into(std::span<const uint64_t> indices,
                                                         std::span<std::byte> to,
                                                         SampleBatch& batch) const {
  const SampleFormat known = format();
  if (known.is_fixed) {  // the size is known without reading
    FFDL_RETURN_IF_ERROR(data::check_room(indices.size(), indices.size() * known.bytes, to.size()));
  }
  batch.begin_in(to);
  const Status status = data::read_all(*this, indices, batch);
  const size_t bytes = batch.end_in();
  FFDL_RETURN_IF_ERROR(status);
  FFDL_RETURN_IF_ERROR(data::check_room(indices.size(), bytes, to.size()));
  return std::span<const std::byte>(to.first(bytes));
}

}  // namespace ffdl
