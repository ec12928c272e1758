#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/checkpoint/safetensors.h"
#include "elastic/state/file_system.h"
#include "elastic/state/user_memory.h"
#include "ffdl/status.h"

// Writes and reads shards: safetensors files whose metadata has a hash of each tensor, as
// "xxh3:NAME".
namespace ffdl::elastic {

// A tensor to be written to a file, after the one before.
struct ShardPart {
  std::string name;
  DType dtype = DType::kInt8;
  uint64_t count = 0;
  const void* data = nullptr;
  std::optional<uint64_t> hash{};  // of the bytes (hash.h), if it is known already
};

// Identifies a shard file. The hash is that of the head, which has those of the tensors.
struct ShardFacts {
  std::string name;  // without its folder
  uint64_t bytes = 0;
  uint64_t hash = 0;

  bool operator==(const ShardFacts&) const = default;
};

// Writes the parts after a head, which is written last, and then renames the file. The file is
// either complete and on the disk, or absent; an unfinished one is removed. The parts are in
// `memory`. Null: they are in the host's, and are written in larger pieces. Errors: those of
// FileSystem and UserMemory.
Result<ShardFacts> write_shard(FileSystem& files, const std::string& folder,
                               const std::string& name, std::span<const ShardPart> parts,
                               UserMemory* memory = nullptr);

// Returns the facts of an existing file, from its head. Errors: those of FileSystem, kCorrupt.
Result<ShardFacts> look_at_shard(FileSystem& files, const std::string& folder,
                                 const std::string& name);

// Reads a file of write_shard().
// Errors: those of FileSystem, kCorrupt (the file differs from the facts, or its bytes from the
//         hashes). All name the file and the byte.
class ShardReader {
 public:
  static Result<ShardReader> open(FileSystem& files, const std::string& folder,
                                  const ShardFacts& facts);

  const std::vector<TensorEntry>& tensors() const { return head_.tensors; }
  // Returns null if there is no tensor of that name.
  const TensorEntry* find(std::string_view name) const;
  // Reads all bytes of a tensor, and checks them afterwards. Errors: also those of `memory`.
  Status read(const TensorEntry& tensor, UserMemory& memory, const Buffer& to) const;
  Status read(const TensorEntry& tensor, std::span<std::byte> to) const;

 private:
  ShardReader(std::string path, std::unique_ptr<StoredFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status read_head(const ShardFacts* facts, ShardFacts* seen);
  friend Result<ShardFacts> look_at_shard(FileSystem&, const std::string&, const std::string&);

  std::string path_;
  std::unique_ptr<StoredFile> file_;
  SafetensorsHead head_;
  uint64_t data_begin_ = 0;
};

}  // namespace ffdl::elastic
