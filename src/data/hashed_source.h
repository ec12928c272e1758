#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "data/digest.h"
#include "data/file_source.h"
#include "data/sample_check.h"
#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The samples of a shard whose hashes are known: it is read through before the first is given.
// Threads: any; the others wait for the one that compares.
class HashedSource final : public DataSource {
 public:
  HashedSource(std::unique_ptr<FileSource> source, std::vector<Digest> digests,
               OnCorrupt on_corrupt)
      : source_(std::move(source)),
        digests_(std::move(digests)),
        checked_(source_->file().path(), on_corrupt, {}),
        samples_(source_->samples()),
        format_(source_->format()) {}
  // Of a file that is known to be wrong: none of its samples is given.
  HashedSource(std::string path, uint64_t samples, Status wrong, OnCorrupt on_corrupt)
      : checked_(std::move(path), on_corrupt, {}), samples_(samples), compared_(std::move(wrong)) {}

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
