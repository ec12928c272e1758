#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "data/file_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// What a compressed file holds, and where samples lie in it.
struct UnpackedFile {
  std::vector<std::byte> bytes{};
  SampleTable table{};
};

// The compressed files of one data set that were used last, unpacked in memory.
// Threads: any. Two that want the same file unpack it once; two files are unpacked side by side.
class UnpackedFiles {
 public:
  // Shared by this list and those who copy out of it: whoever is last frees it.
  using FilePtr = std::shared_ptr<const UnpackedFile>;
  using Unpack = std::function<Result<UnpackedFile>()>;

  // Keeps up to so many bytes, and always the last one.
  explicit UnpackedFiles(uint64_t limit) : limit_(limit) {}

  // The file with this number, kept or made by `unpack`.
  // Blocks: while it is unpacked, here or by another thread. Errors: those of `unpack`.
  Result<FilePtr> get(size_t number, const Unpack& unpack);

  uint64_t bytes() const;
  uint64_t unpacked() const;  // how often a file was

 private:
  struct Entry {
    size_t number = 0;
    FilePtr file{};  // none: somebody unpacks it
  };

  Result<UnpackedFile> unpack_unlocked(const Unpack& unpack) FFDL_REQUIRES(mutex_);
  Entry* find(size_t number) FFDL_REQUIRES(mutex_);
  void drop_oldest(size_t but) FFDL_REQUIRES(mutex_);

  const uint64_t limit_;
  mutable base::Mutex mutex_;
  base::Condition unpacked_one_;
  std::vector<Entry> entries_ FFDL_GUARDED_BY(mutex_);  // the one that was used last is the last
  uint64_t bytes_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t unpacked_ FFDL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ffdl::data
