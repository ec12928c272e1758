#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "data/formats/file_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The content of a compressed file, and the places of its samples.
struct UnpackedFile {
  std::vector<std::byte> bytes{};
  SampleTable table{};
};

// The most recently used compressed files of one data set, unpacked in memory.
// Threads: any. Threads that need the same file unpack it once. Two files are unpacked in parallel.
class UnpackedFiles {
 public:
  // Shared by this list and the readers that copy from the file; the last owner frees it.
  using FilePtr = std::shared_ptr<const UnpackedFile>;
  using Unpack = std::function<Result<UnpackedFile>()>;

  // Keeps up to `limit` bytes, and always the last file.
  explicit UnpackedFiles(uint64_t limit) : limit_(limit) {}

  // Returns the file with this number, cached or made by `unpack`.
  // Blocks: while this or another thread unpacks it. Errors: those of `unpack`.
  Result<FilePtr> get(size_t number, const Unpack& unpack);

  uint64_t bytes() const;
  uint64_t unpacked() const;  // number of times a file was unpacked

 private:
  struct Entry {
    size_t number = 0;
    FilePtr file{};  // null while a thread unpacks it
  };

  Result<UnpackedFile> unpack_unlocked(const Unpack& unpack) FFDL_REQUIRES(mutex_);
  Entry* find(size_t number) FFDL_REQUIRES(mutex_);
  void drop_oldest(size_t but) FFDL_REQUIRES(mutex_);

  const uint64_t limit_;
  mutable base::Mutex mutex_;
  base::Condition unpacked_one_;
  std::vector<Entry> entries_ FFDL_GUARDED_BY(mutex_);  // the most recently used is last
  uint64_t bytes_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t unpacked_ FFDL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ffdl::data
