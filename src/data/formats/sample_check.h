#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Handles corrupt samples: reports an error, or skips and counts them.
// Threads: any.
class SampleCheck {
 public:
  SampleCheck(std::string path, bool skip_corrupt, SkippedData already)
      : path_(std::move(path)), skip_corrupt_(skip_corrupt), skipped_(std::move(already)) {}

  const std::string& path() const { return path_; }
  bool skips_corrupt() const { return skip_corrupt_; }
  // Refuses `sample`, at `offset` of the file, for the reason `problem`.
  Status refuse(uint64_t sample, uint64_t offset, std::string_view problem,
                SampleBatch& batch) const;
  // Skips `count` samples for this reason. Only with kSkip.
  void skip(size_t count, const Status& why, SampleBatch& batch) const;
  SkippedData skipped() const;

 private:
  const std::string path_;
  const bool skip_corrupt_;
  mutable base::Mutex mutex_;
  mutable SkippedData skipped_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::data
