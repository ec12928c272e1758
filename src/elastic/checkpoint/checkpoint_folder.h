#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/checkpoint/manifest.h"
#include "elastic/checkpoint/retention.h"
#include "elastic/checkpoint/shard_file.h"
#include "elastic/checkpoint/state_shares.h"
#include "elastic/state/file_system.h"
#include "ffdl/checkpoint.h"

namespace ffdl::elastic {

// Tensors of shard 0 besides those of the state.
inline constexpr std::string_view kParticipantsTensor = "ffdl.participants";
inline constexpr std::string_view kNoteTensor = "ffdl.note";

// A manifest that is on the disk.
struct WrittenManifest {
  std::string path;  // relative to the folder: "CHECKPOINT/manifest-HASH.json"
  uint64_t hash = 0;
};

// A folder of checkpoints. Each checkpoint has its own folder of shards, with a manifest that is
// written once all shards exist. An empty file in it marks it as published by its name.
// Threads: any; only one caller writes for one label.
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
  // Requires that all shards exist. Fills in `manifest.shards`.
  // Several ranks may call it at the same time; they write the same.
  Result<WrittenManifest> write_manifest(Manifest manifest, int rank, int ranks) const;
  Status mark_published(const CheckpointLabel& label, uint64_t hash) const;
  // Removes old checkpoints. Other files in a folder stay, and the folder with them.
  Status remove_old(const Retention& retention) const;

  // --- or, for a checkpoint that is dropped ---
  // Removes the files of this author. A complete shard stays if there is a manifest. That may be
  // published, and remove_old() removes it later.
  Status discard_share(const CheckpointLabel& label, int rank, int ranks) const;
  // Removes the shards of the job's checkpoints before `next` that have neither a manifest nor a
  // publication: those of dead authors. Each author of `next` calls it before it writes, when all
  // of them have dropped the earlier ones.
  Status remove_abandoned(const CheckpointLabel& next) const;

  // --- reading ---
  // Lists the manifests of the published checkpoints, the newest first.
  Result<std::vector<WrittenManifest>> list_published() const;
  // kAll: the wanted tensors are all tensors of the checkpoint, in its order. kNamed: they may be
  // fewer, in any order.
  enum class Selection { kAll, kNamed };
  // Loads a checkpoint and checks every byte that it reads. `into` is in `memory` and is undefined
  // after an error. Errors: also those of `memory`, kCorrupt (a file is missing or differs; names
  // it and the byte), kInvalidArgument (it has other tensors).
  Result<Checkpoint> load(const WrittenManifest& manifest, std::span<const TensorFacts> tensors,
                          UserMemory& memory, std::span<const Buffer> into,
                          Selection selection = Selection::kAll) const;
  // Loads the first candidate; if `skip_damaged`, the first undamaged one. Returns nothing if there
  // is no candidate.
  Result<std::optional<Checkpoint>> load_first(std::span<const WrittenManifest> candidates,
                                               bool skip_damaged,
                                               std::span<const TensorFacts> tensors,
                                               UserMemory& memory, std::span<const Buffer> into,
                                               Selection selection = Selection::kAll) const;

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
                                std::span<const Buffer> into, Selection selection) const;
  bool has_manifest(const std::string& path) const;
  Status discard_shard(const std::string& path, const std::string& name) const;
  Status remove_if_empty(const std::string& path) const;
  Status remove(const std::string& folder) const;

  FileSystem& files_;
  const std::string path_;
};

}  // namespace ffdl::elastic
