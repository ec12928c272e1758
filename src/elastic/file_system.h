#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"

// What checkpoints need of a file system, so that a test can be one that fails, fills up or is
// killed at any operation. Errors of all, with the path and where it applies the byte:
// kNotFound, kExhausted (full, or a limit of sizes), kCorrupt (bytes that are not there),
// kUnavailable.
namespace ffdl::elastic {

// Closed by its destructor.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Large writes are cheapest where `bytes` lie at a multiple of kBlockBytes as `offset` does.
  virtual Status write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // On the disk when it returns.
  virtual Status sync() = 0;
};

// As long as it was when it was opened.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  virtual uint64_t size() const = 0;
  // All of `to`.
  virtual Status read(uint64_t offset, std::span<std::byte> to) = 0;
};

// Threads: all methods from any thread. Blocks: as long as the disk does.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Empty, whatever was there before.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<StoredFile>> open(const std::string& path) = 0;
  // In the place of what has that name. Lasts once sync_folder() has returned.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status sync_folder(const std::string& path) = 0;
  // With those above it; well if it is there.
  virtual Status make_folder(const std::string& path) = 0;
  // Well if it is not there.
  virtual Status remove_file(const std::string& path) = 0;
  // Only if it is empty; kConflict otherwise.
  virtual Status remove_folder(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Names without their folder, in any order.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

FileSystem& system_files();

// What disks and file systems want addresses and lengths to be multiples of that they take
// directly.
inline constexpr uint64_t kBlockBytes = 4096;
// Less than this is not worth a request of its own.
inline constexpr uint64_t kDirectBytesMin = uint64_t{256} << 10;

// The whole blocks of what is written at `offset` of a file, where it lies in memory as there.
struct BlockCut {
  std::span<const std::byte> before{};
  std::span<const std::byte> blocks{};
  std::span<const std::byte> after{};
};
BlockCut cut_at_blocks(uint64_t offset, std::span<const std::byte> bytes);

// Puts `text` in the place of the file: whoever is killed meanwhile leaves the old one or the new
// one. On the disk when it returns. `writer`: those who may replace it at the same time have
// different numbers, or one would give the name to what another has half written.
Status replace_file(FileSystem& files, const std::string& folder, const std::string& name,
                    int writer, std::string_view text);
// A whole small file. Errors: also kCorrupt (more than `bytes_max`).
Result<std::string> read_text(FileSystem& files, const std::string& path, uint64_t bytes_max);

inline std::string path_in(std::string_view folder, std::string_view name) {
  return std::string(folder).append("/").append(name);
}
// What is written under this name is not yet what the name says.
inline constexpr std::string_view kUnfinished = ".unfinished";

}  // namespace ffdl::elastic
