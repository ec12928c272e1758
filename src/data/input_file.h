#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::data {

// A file of a data set, with the size that it had when it was opened: what comes later is not seen,
// and what is gone is an error.
// Threads: all methods but map() from any.
// Errors: kNotFound, kInvalidArgument (no regular file), kExhausted (too many are open), kCorrupt
//         (cut short), kUnavailable.
class InputFile {
 public:
  static Result<std::unique_ptr<InputFile>> open(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // All of `to`.
  Status read(uint64_t offset, std::span<std::byte> to) const;
  // All of each, one behind the other in the file; none is empty. Uses `parts` up.
  Status read_parts(uint64_t offset, std::span<iovec> parts) const;

  // Makes the bytes of the file memory of this process.
  Status map();
  // After map(): those of [offset, offset + bytes). They stay readable while nobody cuts the file.
  std::span<const std::byte> mapped(uint64_t offset, uint64_t bytes) const {
    return {map_ + offset, bytes};
  }
  // Whether all of the file is still there.
  Status check_size() const;
  // What is populated at once, for which a mark is kept: what the kernel maps around a page that
  // is touched.
  static constexpr uint64_t kPopulatedBytes = uint64_t{64} << 10;
  // Waits until mapped bytes are in memory and in the page table, where the kernel can (5.14).
  // What was once, and is in memory still, is not looked up again page by page: that takes longer
  // than reading it.
  void populate(uint64_t offset, uint64_t bytes) const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status ends_before(uint64_t offset) const;

  const std::string path_;
  const int fd_;
  uint64_t size_ = 0;
  const std::byte* map_ = nullptr;
  // Which parts of the map have been populated. Relaxed: hints, which order nothing.
  mutable std::vector<std::atomic<bool>> populated_{};
};

// Reads a file, or what a compressed one holds, from its front to its end in pieces, for those who
// look for where samples lie.
class FileScanner {
 public:
  explicit FileScanner(const InputFile& file) : file_(file), size_(file.size()) {}
  // What a compressed file holds; is_cut: it held more, which is lost.
  FileScanner(const InputFile& file, std::span<const std::byte> unpacked, bool is_cut)
      : file_(file), size_(unpacked.size()), unpacked_(unpacked), is_cut_(is_cut) {}

  const std::string& path() const { return file_.path(); }
  uint64_t size() const { return size_; }
  bool is_unpacked() const { return unpacked_.data() != nullptr; }
  bool is_cut() const { return is_cut_; }
  // Up to `bytes` from `offset`, fewer only at the end of the file; until the next call. Offsets
  // only grow.
  Result<std::span<const std::byte>> at(uint64_t offset, size_t bytes);

 private:
  const InputFile& file_;
  const uint64_t size_;
  const std::span<const std::byte> unpacked_{};
  const bool is_cut_ = false;
  std::vector<std::byte> piece_{};
  uint64_t begin_ = 0;  // of the piece in the file
};

}  // namespace ffdl::data
