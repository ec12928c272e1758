#include "data/formats/sample_check.h"

#include "base/errors.h"

namespace ffdl::data {

Status SampleCheck::refuse(uint64_t sample, uint64_t offset, std::string_view problem,
                           SampleBatch& batch) const {
  const Status why = base::make_error(
      StatusCode::kCorrupt,
      "read sample {} of '{}': {} at byte {}; replace the file, or leave such samples out with "
      "FileOptions::skip_corrupt",
      sample, path_, problem, offset);
  if (!skip_corrupt_) return why;
  skip(1, why, batch);
  return {};
}

void SampleCheck::skip(size_t count, const Status& why, SampleBatch& batch) const {
  for (size_t i = 0; i < count; ++i) batch.skip();
  const base::MutexLock lock(mutex_);
  if (skipped_.first.empty()) skipped_.first = why.message();
  skipped_.samples += count;
}

SkippedData SampleCheck::skipped() const {
  const base::MutexLock lock(mutex_);
  return skipped_;
}

}  // namespace ffdl::data
