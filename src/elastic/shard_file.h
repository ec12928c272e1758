#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/file_system.h"
#include "elastic/safetensors.h"
#include "elastic/user_memory.h"
#include "ffdl/status.h"

// A safetensors file whose head has a hash of each tensor, under "xxh3:NAME" of its metadata.
namespace ffdl::elastic {

// Elements that go into a file, one after the other.
struct ShardPart {
  std::string name;
  DType dtype = DType::kInt8;
  uint64_t count = 0;
  const void* data = nullptr;
  std::optional<uint64_t> hash{};  // of the bytes (hash.h), where it is known already
};

// What says which file it is. The hash is that of the head, which has those of the tensors.
struct ShardFacts {
  std::string name;  // without its folder
  uint64_t bytes = 0;
  uint64_t hash = 0;

  bool operator==(const ShardFacts&) const = default;
};

// Streams the parts behind a head that is written last, then gives the file its name: it is there
// whole and on the disk, or not there. They lie in `memory`; null: in the host's, and are written
// in larger pieces. Errors: those of FileSystem and UserMemory.
Result<ShardFacts> write_shard(FileSystem& files, const std::string& folder,
                               const std::string& name, std::span<const ShardPart> parts,
                               UserMemory* memory = nullptr);

// The facts of a file that is there, from its head. Errors: those of FileSystem, kCorrupt.
Result<ShardFacts> look_at_shard(FileSystem& files, const std::string& folder,
                                 const std::string& name);

// Reads what write_shard() wrote.
// Errors: those of FileSystem, kCorrupt (another file than the facts say, or other bytes than the
//         hashes say). All name the file and the byte.
class ShardReader {
 public:
  static Result<ShardReader> open(FileSystem& files, const std::string& folder,
                                  const ShardFacts& facts);

  const std::vector<TensorEntry>& tensors() const { return head_.tensors; }
  // Null: there is none of that name.
  const TensorEntry* find(std::string_view name) const;
  // All bytes of a tensor; what comes is checked when it is here. Errors: also those of `memory`.
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
