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

// A file of a data set, with the size that it had when opened. Bytes appended later are ignored;
// bytes cut off are an error.
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

  // Fills all of `to`.
  Status read(uint64_t offset, std::span<std::byte> to) const;
  // Fills all parts from adjacent bytes of the file. No part may be empty. Changes `parts`.
  Status read_parts(uint64_t offset, std::span<iovec> parts) const;

  // Maps the file into memory.
  Status map();
  // Returns the mapped bytes [offset, offset + bytes). They stay readable while the file is not
  // cut. Requires map().
  std::span<const std::byte> mapped(uint64_t offset, uint64_t bytes) const {
    return {map_ + offset, bytes};
  }
  // Checks that the file still has its full size.
  Status check_size() const;
  // The unit in which populate() marks its work: the kernel maps that many bytes around a touched
  // page.
  static constexpr uint64_t kPopulatedBytes = uint64_t{64} << 10;
  // Waits until mapped bytes are in memory and in the page table, if the kernel can (5.14). Bytes
  // that were populated before and are still resident are not looked up again page by page. That
  // would take longer than reading them.
  void populate(uint64_t offset, uint64_t bytes) const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status ends_before(uint64_t offset) const;

  const std::string path_;
  const int fd_;
  uint64_t size_ = 0;
  const std::byte* map_ = nullptr;
  // Marks the populated parts of the map. Relaxed: hints, which order nothing.
  mutable std::vector<std::atomic<bool>> populated_{};
};

// Reads a file, or the content of a compressed one, from front to end in pieces, to locate samples.
class FileScanner {
 public:
  explicit FileScanner(const InputFile& file) : file_(file), size_(file.size()) {}
  // Reads the content of a compressed file. is_cut: the rest of the content is lost.
  FileScanner(const InputFile& file, std::span<const std::byte> unpacked, bool is_cut)
      : file_(file), size_(unpacked.size()), unpacked_(unpacked), is_cut_(is_cut) {}

  const std::string& path() const { return file_.path(); }
  uint64_t size() const { return size_; }
  bool is_unpacked() const { return unpacked_.data() != nullptr; }
  bool is_cut() const { return is_cut_; }
  // Returns up to `bytes` from `offset`, fewer only at the end of the file. The span is valid until
  // the next call. Offsets must not decrease.
  Result<std::span<const std::byte>> at(uint64_t offset, size_t bytes);

 private:
  const InputFile& file_;
  const uint64_t size_;
  const std::span<const std::byte> unpacked_{};
  const bool is_cut_ = false;
  std::vector<std::byte> piece_{};
  uint64_t begin_ = 0;  // offset of the piece in the file
};

}  // namespace ffdl::data
