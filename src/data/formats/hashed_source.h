#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "data/formats/digest.h"
#include "data/formats/file_source.h"
#include "data/formats/sample_check.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The samples of a shard with known hashes. All of it is read and checked before the first sample
// is returned.
// Threads: any; other threads wait for the one that checks.
class HashedSource final : public DataSource {
 public:
  HashedSource(std::unique_ptr<FileSource> source, std::vector<Digest> digests, bool skip_corrupt)
      : source_(std::move(source)),
        digests_(std::move(digests)),
        checked_(source_->file().path(), skip_corrupt, {}),
        samples_(source_->samples()),
        format_(source_->format()) {}
  // Makes the source of a file that is known to be corrupt. None of its samples is returned.
  HashedSource(std::string path, uint64_t samples, Status wrong, bool skip_corrupt)
      : checked_(std::move(path), skip_corrupt, {}),
        samples_(samples),
        compared_(std::move(wrong)) {}

  uint64_t samples() const override { return samples_; }
  SampleFormat format() const override { return format_; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override;
  SkippedData skipped() const override;

 private:
  Status compare() const;

  const std::unique_ptr<FileSource> source_{};
  const std::vector<Digest> digests_{};
  const SampleCheck checked_;
  const uint64_t samples_;
  const SampleFormat format_{};
  mutable base::Mutex mutex_;
  mutable std::optional<Status> compared_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::data
