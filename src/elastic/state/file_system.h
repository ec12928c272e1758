#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

// The file system as checkpoints use it. A test can replace it with one that fails, fills up or is
// killed at any operation. Errors of all, with the path and, where it applies, the byte: kNotFound,
// kExhausted (full, or a size limit), kCorrupt (missing bytes), kUnavailable.
namespace ffdl::elastic {

// A file to be written; its destructor closes it.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Writes bytes. Large writes are cheapest if `bytes` and `offset` have the same remainder modulo
  // kBlockBytes.
  virtual Status write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Returns when all bytes are on the disk.
  virtual Status sync() = 0;
};

// A file to be read, with the size that it had when opened.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  virtual uint64_t size() const = 0;
  // Fills all of `to`.
  virtual Status read(uint64_t offset, std::span<std::byte> to) = 0;
};

// Operations on files and folders. Threads: all methods from any thread. Blocks: as long as the
// disk does.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates an empty file, in place of any earlier one. Follows no link, neither of the file nor of
  // its folder. A link, a pipe, and a file of another user or with a second name are replaced.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<StoredFile>> open(const std::string& path) = 0;
  // Renames a file, in place of any other with that name. Durable once sync_folder() has returned.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status sync_folder(const std::string& path) = 0;
  // Makes a folder and those above it; ok if it exists.
  virtual Status make_folder(const std::string& path) = 0;
  // Removes a file; ok if it does not exist.
  virtual Status remove_file(const std::string& path) = 0;
  // Removes a folder if it is empty; kConflict otherwise.
  virtual Status remove_folder(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Returns names without their folder, in any order.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

FileSystem& system_files();

// The alignment of addresses and lengths with which disks and file systems accept direct writes.
inline constexpr uint64_t kBlockBytes = 4096;
// The least size of a separate direct write.
inline constexpr uint64_t kDirectBytesMin = uint64_t{256} << 10;

// Splits bytes to write at `offset` of a file. The whole blocks are those with the same alignment
// in memory and in the file.
struct BlockCut {
  std::span<const std::byte> before{};
  std::span<const std::byte> blocks{};
  std::span<const std::byte> after{};
};
BlockCut cut_at_blocks(uint64_t offset, std::span<const std::byte> bytes);

// Replaces a file by `text`. A process that is killed meanwhile leaves the old file or the new one.
// It is on the disk on return. Concurrent callers must have different numbers `writer`. Otherwise
// one could rename a file that another has half written. An unfinished file is removed after an
// error.
Status replace_file(FileSystem& files, const std::string& folder, const std::string& name,
                    int writer, std::string_view text);
// Reads a whole small file. Errors: also kCorrupt (more than `bytes_max`).
Result<std::string> read_text(FileSystem& files, const std::string& path, uint64_t bytes_max);

inline std::string path_in(std::string_view folder, std::string_view name) {
  return std::string(folder).append("/").append(name);
}
// Marks the name of a file that is not complete yet.
inline constexpr std::string_view kUnfinished = ".unfinished";

}  // namespace ffdl::elastic
