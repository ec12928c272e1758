#include "data/formats/hashed_source.h"

namespace ffdl::data {

Status HashedSource::read(std::span<const uint64_t> indices, SampleBatch& batch) const {
  const Status status = compare();
  if (status.ok()) return source_->read(indices, batch);
  if (status.code() != StatusCode::kCorrupt || !checked_.skips_corrupt()) {
    return status;
  }
  checked_.skip(indices.size(), status, batch);
  return {};
}

// Keeps the result of the check, unless reading failed: a failed disk may recover, wrong bytes do
// not.
Status HashedSource::compare() const {
  const base::MutexLock lock(mutex_);
  if (compared_) return *compared_;
  Status status = check_digests(source_->file(), digests_);
  if (status.ok() || status.code() == StatusCode::kCorrupt) compared_ = status;
  return status;
}

SkippedData HashedSource::skipped() const { return checked_.skipped(); }

}  // namespace ffdl::data
