#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/file_system.h"
#include "elastic/manifest.h"
#include "elastic/retention.h"
#include "elastic/shard_file.h"
#include "elastic/shares.h"
#include "ffdl/checkpoint.h"

namespace ffdl::elastic {

// Tensors of shard 0 beside those of the state.
inline constexpr std::string_view kParticipantsTensor = "ffdl.participants";
inline constexpr std::string_view kNoteTensor = "ffdl.note";

// A manifest that is on the disk.
struct WrittenManifest {
  std::string path;  // below the folder: "CHECKPOINT/manifest-HASH.json"
  uint64_t hash = 0;
};

// A folder of checkpoints: each in a folder of its own, of shards, a manifest that is written when
// all shards are there, and an empty file whose name says that it was published.
// Threads: any; what is written for one label is written by one caller.
// Blocks: as long as the disk does.
// Errors: those of FileSystem, with "write checkpoint 'FOLDER'" or "load checkpoint 'FOLDER'".
class CheckpointFolder {
 public:
  CheckpointFolder(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // --- in this order ---
  Status write_shard(const CheckpointLabel& label, int rank, int ranks,
                     std::span<const ShardPart> parts, UserMemory* memory = nullptr) const;
  bool has_shard(const CheckpointLabel& label, int rank, int ranks) const;
  // All shards are there. Fills in `manifest.shards`.
  // Several ranks may do so at the same time, and write the same.
  Result<WrittenManifest> write_manifest(Manifest manifest, int rank, int ranks) const;
  Status mark_published(const CheckpointLabel& label, uint64_t hash) const;
  // Whatever else is in a folder stays, and the folder with it.
  Status remove_old(const Retention& retention) const;

  // --- back ---
  // The published ones, the newest first, by their manifests.
  Result<std::vector<WrittenManifest>> list_published() const;
  // Every byte is checked; `into`, which is of `memory`, is undefined after an error. Errors: also
  // those of `memory`, kCorrupt (one of its files is not there, or is another: which, and at which
  // byte), kInvalidArgument (it has other tensors).
  Result<Checkpoint> load(const WrittenManifest& manifest, std::span<const TensorFacts> tensors,
                          UserMemory& memory, std::span<const Buffer> into) const;
  // The first of them; if `skip_damaged`, the first that is whole. None: nothing.
  Result<std::optional<Checkpoint>> load_first(std::span<const WrittenManifest> candidates,
                                               bool skip_damaged,
                                               std::span<const TensorFacts> tensors,
                                               UserMemory& memory,
                                               std::span<const Buffer> into) const;

 private:
  struct Listed {
    StoredCheckpoint stored;
    uint64_t manifest_hash = 0;
  };
  Result<std::vector<Listed>> list() const;
  std::string folder_of(const CheckpointLabel& label) const {
    return path_in(path_, folder_name(label));
  }
  Result<Manifest> read_manifest(const WrittenManifest& manifest) const;
  Result<Checkpoint> load_parts(const WrittenManifest& manifest,
                                std::span<const TensorFacts> tensors, UserMemory& memory,
                                std::span<const Buffer> into) const;
  Status remove(const std::string& folder) const;

  FileSystem& files_;
  const std::string path_;
};

}  // namespace ffdl::elastic
