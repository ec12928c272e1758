#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// What becomes of samples whose bytes are wrong: an error, or left out and counted.
// Threads: any.
class SampleCheck {
 public:
  SampleCheck(std::string path, OnCorrupt on_corrupt, SkippedData already)
      : path_(std::move(path)), on_corrupt_(on_corrupt), skipped_(std::move(already)) {}

  const std::string& path() const { return path_; }
  OnCorrupt on_corrupt() const { return on_corrupt_; }
  // `sample` of the file at `offset` of it is none: `problem` says why.
  Status refuse(uint64_t sample, uint64_t offset, std::string_view problem,
                SampleBatch& batch) const;
  // With kSkip: `count` samples are left out for this reason.
  void skip(size_t count, const Status& why, SampleBatch& batch) const;
  SkippedData skipped() const;

 private:
  const std::string path_;
  const OnCorrupt on_corrupt_;
  mutable base::Mutex mutex_;
  mutable SkippedData skipped_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::data
