#include "ffdl/checkpoint.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "elastic/checkpoint/checkpoint_folder.h"
#include "elastic/state/staged_memory.h"
#include "elastic/state/state_copy.h"

namespace ffdl {
namespace {

elastic::CheckpointFolder folder_of(const CheckpointOptions& options) {
  return {options.files != nullptr ? *options.files : elastic::system_files(), options.folder};
}

Status check_saving(const CheckpointOptions& options, const std::string& job) {
  if (options.folder.empty()) {
    return base::invalid_argument("save a checkpoint: name a folder in the options");
  }
  if (options.keep_last < 1 || options.keep_best < 0) {
    return base::invalid_argument(
        "save checkpoints in '{}': keep_last must be at least 1 and keep_best at least 0",
        options.folder);
  }
  const bool is_name =
      !job.empty() && job.size() <= base::kMemberIdMax &&
      std::all_of(job.begin(), job.end(), [](char c) { return c > ' ' && c <= '~' && c != '/'; });
  if (is_name) return {};
  return base::invalid_argument(
      "save checkpoints in '{}': a job's name has 1 to {} printable characters of ASCII without "
      "'/'",
      options.folder, base::kMemberIdMax);
}

// Returns the memory of the tensors; null: the host's.
Result<std::unique_ptr<elastic::UserMemory>> memory_of(const CheckpointOptions& options) {
  if (!options.device) return std::unique_ptr<elastic::UserMemory>();
  FFDL_ASSIGN_OR_RETURN(auto chosen, base::choose_gpu(options.device, options.devices));
  FFDL_ASSIGN_OR_RETURN(auto memory, elastic::StagedMemory::create(std::move(chosen)));
  FFDL_RETURN_IF_ERROR(memory->follow());
  return std::unique_ptr<elastic::UserMemory>(std::move(memory));
}

}  // namespace

Result<Checkpoint> save_checkpoint(const CheckpointOptions& options,
                                   std::span<const Buffer> tensors, uint64_t step,
                                   const std::string& job) {
  FFDL_RETURN_IF_ERROR(check_saving(options, job));
  if (tensors.empty()) {
    return base::invalid_argument(
        "save a checkpoint in '{}': there is no tensor; give those of the state", options.folder);
  }
  FFDL_ASSIGN_OR_RETURN(const auto on_gpu, memory_of(options));
  elastic::HostMemory on_host;
  elastic::UserMemory& memory = on_gpu ? *on_gpu : on_host;
  const elastic::CheckpointFolder folder = folder_of(options);
  elastic::Manifest manifest;
  FFDL_ASSIGN_OR_RETURN(manifest.tensors, elastic::describe_tensors(tensors, options.names));
  // Each content has its own folder, so that a valid checkpoint is never overwritten.
  const std::string note = options.note ? options.note() : std::string();
  if (note.size() > base::kNoteBytesMax) {
    return base::make_error(StatusCode::kExhausted,
                            "save a checkpoint in '{}': the note has {} bytes; give at most {}",
                            options.folder, note.size(), base::kNoteBytesMax);
  }
  FFDL_ASSIGN_OR_RETURN(const uint64_t hash,
                        elastic::hash_of(memory, tensors, std::as_bytes(std::span(note))));
  manifest.label = {job, 0, 0, step, hash};
  if (options.metric) manifest.metric = options.metric();
  std::vector<elastic::ShardPart> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const elastic::TensorFacts& tensor = manifest.tensors[i];
    if (tensor.count == 0) continue;
    parts.push_back({tensor.name, tensor.dtype, tensor.count, tensors[i].data});
  }
  parts.push_back({std::string(elastic::kNoteTensor), DType::kInt8, note.size(), note.data()});
  FFDL_RETURN_IF_ERROR(folder.write_shard(manifest.label, 0, 1, parts, on_gpu.get()));
  FFDL_ASSIGN_OR_RETURN(const auto written, folder.write_manifest(manifest, 0, 1));
  FFDL_RETURN_IF_ERROR(folder.mark_published(manifest.label, written.hash));
  const std::string name = elastic::folder_name(manifest.label);
  FFDL_RETURN_IF_ERROR(folder.remove_old({job, name, options.keep_last, options.keep_best}));
  return Checkpoint{
      elastic::path_in(options.folder, name), job, 0, 0, step, manifest.metric, note, {}};
}

Result<Checkpoint> load_checkpoint(const CheckpointOptions& options,
                                   std::span<const Buffer> tensors) {
  const elastic::CheckpointFolder folder = folder_of(options);
  FFDL_ASSIGN_OR_RETURN(const auto facts, elastic::describe_tensors(tensors, options.names));
  FFDL_ASSIGN_OR_RETURN(const auto published, folder.list_published());
  FFDL_ASSIGN_OR_RETURN(const auto on_gpu, memory_of(options));
  elastic::HostMemory on_host;
  elastic::UserMemory& memory = on_gpu ? *on_gpu : on_host;
  using Selection = elastic::CheckpointFolder::Selection;
  FFDL_ASSIGN_OR_RETURN(
      auto loaded, folder.load_first(published, options.skip_damaged, facts, memory, tensors,
                                     options.names.empty() ? Selection::kAll : Selection::kNamed));
  if (loaded) return *std::move(loaded);
  return base::make_error(StatusCode::kNotFound,
                          "load a checkpoint from '{}': none was published there; name the folder "
                          "that they were written to",
                          options.folder);
}

}  // namespace ffdl
