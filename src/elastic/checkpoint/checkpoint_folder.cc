#include "elastic/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"

namespace ffdl::elastic {
namespace {

std::string writing(std::string_view folder) {
  return fmt::format("write checkpoint '{}'", folder);
}

// Returns the folder in a manifest's path.
std::string_view folder_part(std::string_view path) { return path.substr(0, path.find('/')); }

Status check_tensors(std::span<const TensorFacts> stored, std::span<const TensorFacts> wanted) {
  for (size_t i = 0; i < std::max(stored.size(), wanted.size()); ++i) {
    if (i < stored.size() && i < wanted.size() && stored[i] == wanted[i]) continue;
    const auto text = [&](std::span<const TensorFacts> all) {
      if (i >= all.size()) return fmt::format("{} tensors", all.size());
      return fmt::format("'{}' of {} {} as tensor {}", all[i].name, all[i].count,
                         to_string(all[i].dtype), i);
    };
    return base::invalid_argument(
        "it has {}, but this model has {}; load the checkpoint into the model that wrote it",
        text(stored), text(wanted));
  }
  return {};
}

// Returns where each stored tensor is read to: the buffer of the wanted tensor of that name, or one
// without data.
Result<std::vector<Buffer>> choose_by_name(std::span<const TensorFacts> stored,
                                           std::span<const TensorFacts> wanted,
                                           std::span<const Buffer> into) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < stored.size(); ++i) places.emplace(stored[i].name, i);
  std::vector<Buffer> targets(stored.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto place = places.find(wanted[i].name);
    if (place == places.end()) {
      return base::invalid_argument(
          "it has no '{}', but {} tensors, the first of them '{}'; give names of these",
          wanted[i].name, stored.size(), stored.empty() ? "" : stored.front().name);
    }
    const TensorFacts& found = stored[place->second];
    if (found != wanted[i]) {
      return base::invalid_argument(
          "it has '{}' of {} {}, but the given tensor has {} {}; give one like it", found.name,
          found.count, to_string(found.dtype), wanted[i].count, to_string(wanted[i].dtype));
    }
    targets[place->second] = into[i];
  }
  return targets;
}

// Reads shards into a state, and the bytes beside it. Skips tensors whose buffer has no data.
class Loader {
 public:
  Loader(std::span<const TensorFacts> tensors, UserMemory& memory, std::span<const Buffer> into)
      : tensors_(tensors), memory_(memory), into_(into) {}

  Status read(const ShardReader& shard, const std::string& path, Checkpoint& beside) {
    for (const TensorEntry& entry : shard.tensors()) {
      const uint64_t bytes = entry.end - entry.begin;
      if (entry.name == kParticipantsTensor && bytes <= base::kParticipantBytesMax) {
        beside.participants.resize(bytes);
        FFDL_RETURN_IF_ERROR(shard.read(entry, beside.participants));
      } else if (entry.name == kNoteTensor && bytes <= base::kNoteBytesMax) {
        beside.note.resize(bytes);
        FFDL_RETURN_IF_ERROR(shard.read(entry, std::as_writable_bytes(std::span(beside.note))));
      } else {
        FFDL_RETURN_IF_ERROR(read_piece(shard, path, entry));
      }
    }
    return {};
  }

  bool is_whole() { return are_whole(pieces_, tensors_); }

 private:
  Status read_piece(const ShardReader& shard, const std::string& path, const TensorEntry& entry) {
    const auto piece = piece_of(entry.name, tensors_);
    const bool fits = piece && entry.dtype == tensors_[piece->tensor].dtype &&
                      entry.end - entry.begin == piece->count * element_bytes(entry.dtype);
    if (!fits) {
      return base::make_error(StatusCode::kCorrupt,
                              "read checkpoint file '{}': byte {}: '{}' is not a part of the state",
                              path, entry.begin, entry.name);
    }
    auto* const data = static_cast<std::byte*>(into_[piece->tensor].data);
    pieces_.push_back(*piece);
    if (data == nullptr) return {};
    return shard.read(
        entry, memory_,
        {data + piece->begin * element_bytes(entry.dtype), piece->count, entry.dtype});
  }

  const std::span<const TensorFacts> tensors_;
  UserMemory& memory_;
  const std::span<const Buffer> into_;
  std::vector<Piece> pieces_;
};

}  // namespace

Status CheckpointFolder::write_shard(const CheckpointLabel& label, int rank, int ranks,
                                     std::span<const ShardPart> parts, UserMemory* memory) const {
  const std::string folder = folder_of(label);
  Status made = files_.make_folder(folder);
  if (made.ok()) {
    made = elastic::write_shard(files_, folder, shard_name(rank, ranks), parts, memory).status();
  }
  return std::move(made).with_context(writing(folder));
}

bool CheckpointFolder::has_shard(const CheckpointLabel& label, int rank, int ranks) const {
  return files_.exists(path_in(folder_of(label), shard_name(rank, ranks)));
}

Result<WrittenManifest> CheckpointFolder::write_manifest(Manifest manifest, int rank,
                                                         int ranks) const {
  const std::string folder = folder_of(manifest.label);
  manifest.shards.clear();
  for (int author = 0; author < ranks; ++author) {
    auto facts = look_at_shard(files_, folder, shard_name(author, ranks));
    if (!facts.ok()) return std::move(facts).status().with_context(writing(folder));
    manifest.shards.push_back(*std::move(facts));
  }
  const std::string text = encode(manifest);
  const uint64_t hash = hash_of_manifest(text);
  const std::string name = manifest_name(hash);
  Status written = replace_file(files_, folder, name, rank, text);
  if (written.ok()) written = files_.sync_folder(path_);  // makes the folder's name durable
  FFDL_RETURN_IF_ERROR(std::move(written).with_context(writing(folder)));
  // Checks after the manifest is written: an author that drops its shard renames it and then
  // looks for one.
  for (int author = 0; author < ranks; ++author) {
    if (has_shard(manifest.label, author, ranks)) continue;
    return base::make_error(StatusCode::kPeerLost, "{}: the member of rank {} abandoned its share",
                            writing(folder), author);
  }
  return WrittenManifest{path_in(folder_name(manifest.label), name), hash};
}

Status CheckpointFolder::mark_published(const CheckpointLabel& label, uint64_t hash) const {
  FFDL_ASSIGN_OR_RETURN(const auto all, list());
  uint64_t last = 0;
  for (const Listed& one : all) last = std::max(last, one.stored.sequence.value_or(0));
  const std::string folder = folder_of(label);
  const auto file = files_.create(path_in(folder, published_name(last + 1, hash)));
  Status marked = file.status();
  if (marked.ok()) marked = (*file)->sync();
  if (marked.ok()) marked = files_.sync_folder(folder);
  return std::move(marked).with_context(writing(folder));
}

Result<std::vector<CheckpointFolder::Listed>> CheckpointFolder::list() const {
  std::vector<Listed> all;
  const auto folders = files_.list(path_);
  if (folders.status().code() == StatusCode::kNotFound) return all;
  if (!folders.ok()) return folders.status();
  for (const std::string& name : *folders) {
    const auto label = parse_folder_name(name);
    if (!label) continue;
    const auto files = files_.list(path_in(path_, name));
    if (!files.ok()) continue;  // a file, or just removed
    Listed one = {{name, *label, {}, {}}, 0};
    for (const std::string& file : *files) {
      const auto published = parse_published_name(file);
      if (!published || published->first < one.stored.sequence.value_or(0)) continue;
      std::tie(one.stored.sequence, one.manifest_hash) = *published;
    }
    all.push_back(std::move(one));
  }
  return all;
}

Status CheckpointFolder::remove_old(const Retention& retention) const {
  FFDL_ASSIGN_OR_RETURN(auto all, list());
  std::vector<StoredCheckpoint> stored;
  for (Listed& one : all) {
    if (retention.keep_best > 0 && one.stored.sequence) {
      const auto manifest = read_manifest(
          {path_in(one.stored.folder, manifest_name(one.manifest_hash)), one.manifest_hash});
      if (manifest.ok()) one.stored.metric = manifest->metric;
    }
    stored.push_back(std::move(one.stored));
  }
  for (const std::string& folder : choose_removals(stored, retention)) {
    FFDL_RETURN_IF_ERROR(remove(folder));
  }
  return {};
}

bool CheckpointFolder::has_manifest(const std::string& path) const {
  const auto names = files_.list(path);
  // A folder that cannot be listed may have a manifest.
  if (!names.ok()) return names.status().code() != StatusCode::kNotFound;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.starts_with("manifest-") && !name.ends_with(kUnfinished);
  });
}

// Discards a shard unless there is a manifest. The shard loses its name before the second look for
// a manifest. write_manifest() looks for the shards after it has written one. So one of the two
// sees what the other has done. A shard without its name beside a manifest is complete: a member
// died before it could return the name. Until a later call does, it is read by the other name.
Status CheckpointFolder::discard_shard(const std::string& path, const std::string& name) const {
  const std::string shard = path_in(path, name);
  const std::string unfinished = shard + std::string(kUnfinished);
  if (files_.exists(shard)) {
    if (has_manifest(path)) return {};
    FFDL_RETURN_IF_ERROR(files_.rename(shard, unfinished));
  }
  if (!has_manifest(path)) return files_.remove_file(unfinished);
  const Status returned = files_.rename(unfinished, shard);
  return returned.code() == StatusCode::kNotFound ? Status() : returned;  // another member did it
}

Status CheckpointFolder::discard_share(const CheckpointLabel& label, int rank, int ranks) const {
  const std::string folder = folder_of(label);
  FFDL_RETURN_IF_ERROR(discard_shard(folder, shard_name(rank, ranks)));
  return remove_if_empty(folder);
}

Status CheckpointFolder::remove_abandoned(const CheckpointLabel& next) const {
  FFDL_ASSIGN_OR_RETURN(const auto all, list());
  for (const Listed& one : all) {
    const CheckpointLabel& label = one.stored.label;
    if (one.stored.sequence || label.job != next.job || label.order() >= next.order()) continue;
    const std::string path = path_in(path_, one.stored.folder);
    const auto names = files_.list(path);
    if (!names.ok()) continue;  // another member has removed it
    for (std::string name : *names) {
      if (!name.starts_with("shard-") || !is_checkpoint_file(name)) continue;
      if (name.ends_with(kUnfinished)) name.resize(name.size() - kUnfinished.size());
      FFDL_RETURN_IF_ERROR(discard_shard(path, name));
    }
    FFDL_RETURN_IF_ERROR(remove_if_empty(path));
  }
  return {};
}

Status CheckpointFolder::remove_if_empty(const std::string& path) const {
  const Status removed = files_.remove_folder(path);
  return removed.code() == StatusCode::kConflict ? Status() : removed;
}

// Removes the publication mark first, so that no reader takes a half-removed checkpoint for a whole
// one.
Status CheckpointFolder::remove(const std::string& folder) const {
  const std::string path = path_in(path_, folder);
  FFDL_ASSIGN_OR_RETURN(const auto names, files_.list(path));
  for (const bool markers : {true, false}) {
    for (const std::string& name : names) {
      if (!is_checkpoint_file(name) || parse_published_name(name).has_value() != markers) continue;
      FFDL_RETURN_IF_ERROR(files_.remove_file(path_in(path, name)));
    }
    FFDL_RETURN_IF_ERROR(files_.sync_folder(path));
  }
  return remove_if_empty(path);
}

Result<std::vector<WrittenManifest>> CheckpointFolder::list_published() const {
  FFDL_ASSIGN_OR_RETURN(auto all, list());
  std::erase_if(all, [](const Listed& one) { return !one.stored.sequence; });
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return std::pair(*a.stored.sequence, a.stored.label.order()) >
           std::pair(*b.stored.sequence, b.stored.label.order());
  });
  std::vector<WrittenManifest> published;
  for (const Listed& one : all) {
    published.push_back(
        {path_in(one.stored.folder, manifest_name(one.manifest_hash)), one.manifest_hash});
  }
  return published;
}

Result<Manifest> CheckpointFolder::read_manifest(const WrittenManifest& manifest) const {
  const std::string path = path_in(path_, manifest.path);
  FFDL_ASSIGN_OR_RETURN(const std::string text, read_text(files_, path, base::kManifestBytesMax));
  if (hash_of_manifest(text) != manifest.hash) {
    return base::make_error(StatusCode::kCorrupt,
                            "read checkpoint file '{}': byte 0: its {} bytes have another hash "
                            "than when they were written",
                            path, text.size());
  }
  auto parsed = parse_manifest(text);
  if (parsed.ok() && folder_name(parsed->label) != folder_part(manifest.path)) {
    return base::make_error(StatusCode::kCorrupt,
                            "read checkpoint file '{}': it belongs to '{}'; give the folder its "
                            "name back",
                            path, folder_name(parsed->label));
  }
  if (parsed.ok()) return parsed;
  return std::move(parsed).status().with_context(fmt::format("read checkpoint file '{}'", path));
}

Result<Checkpoint> CheckpointFolder::load_parts(const WrittenManifest& written,
                                                std::span<const TensorFacts> tensors,
                                                UserMemory& memory, std::span<const Buffer> into,
                                                Selection selection) const {
  FFDL_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(written));
  std::vector<Buffer> targets(into.begin(), into.end());
  if (selection == Selection::kAll) {
    FFDL_RETURN_IF_ERROR(check_tensors(manifest.tensors, tensors));
  } else {
    FFDL_ASSIGN_OR_RETURN(targets, choose_by_name(manifest.tensors, tensors, into));
  }
  const std::string folder = path_in(path_, folder_part(written.path));
  const CheckpointLabel& label = manifest.label;
  Checkpoint checkpoint = {
      folder, label.job, label.lineage, label.generation, label.step, manifest.metric, {}, {}};
  Loader loader(manifest.tensors, memory, targets);
  for (const ShardFacts& facts : manifest.shards) {
    FFDL_ASSIGN_OR_RETURN(const ShardReader shard, ShardReader::open(files_, folder, facts));
    FFDL_RETURN_IF_ERROR(loader.read(shard, path_in(folder, facts.name), checkpoint));
  }
  if (loader.is_whole()) return checkpoint;
  return base::make_error(
      StatusCode::kCorrupt,
      "read checkpoint file '{}': its {} shards do not contain each element exactly once",
      path_in(path_, written.path), manifest.shards.size());
}

Result<Checkpoint> CheckpointFolder::load(const WrittenManifest& manifest,
                                          std::span<const TensorFacts> tensors, UserMemory& memory,
                                          std::span<const Buffer> into,
                                          Selection selection) const {
  auto loaded = load_parts(manifest, tensors, memory, into, selection);
  if (loaded.ok()) return loaded;
  Status failure = std::move(loaded).status().with_context(
      fmt::format("load checkpoint '{}'", path_in(path_, folder_part(manifest.path))));
  if (failure.code() != StatusCode::kNotFound) return failure;
  return Status(StatusCode::kCorrupt, std::string(failure.message()));  // a file that it names
}

Result<std::optional<Checkpoint>> CheckpointFolder::load_first(
    std::span<const WrittenManifest> candidates, bool skip_damaged,
    std::span<const TensorFacts> tensors, UserMemory& memory, std::span<const Buffer> into,
    Selection selection) const {
  Status first;
  for (const WrittenManifest& candidate : candidates) {
    auto loaded = load(candidate, tensors, memory, into, selection);
    if (loaded.ok()) return std::optional(std::move(loaded).value());
    Status failure = std::move(loaded).status();
    if (failure.code() == StatusCode::kInvalidArgument) return failure;
    if (!skip_damaged) {
      return base::make_error(failure.code(),
                              "{}; restore that file, or set skip_damaged to take an older one",
                              failure.message());
    }
    base::log_warning("{}; the next older one is tried", failure.message());
    if (first.ok()) first = std::move(failure);
  }
  if (first.ok()) return std::optional<Checkpoint>();
  return first;
}

}  // namespace ffdl::elastic
