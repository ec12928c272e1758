#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// States on a disk, in safetensors files. docs/guide/checkpoints.md defines their format, and when
// a checkpoint is valid.
namespace ffdl {

namespace elastic {
class FileSystem;
}
namespace base {
class DeviceSide;
}

// The options of a session's checkpoints (session.h) and of the functions below. In a session
// `folder`, `every_steps` and `every` must be equal at all members.
struct CheckpointOptions {
  // The folder, visible to all members; created if it is absent. For one job at a time. Empty: no
  // checkpoints.
  std::string folder{};
  uint64_t every_steps = 0;  // due after each step that is a multiple of this; 0: not by steps
  Duration every{};          // due this long after the last checkpoint; 0: not by time
  // True: Session::finish() writes a checkpoint of the last step, unless there is one. A process
  // that starts later then has the final state of the training.
  bool at_end = true;

  int keep_last = 2;  // newest checkpoints to keep; at least 1
  // Also keeps this many of the job's checkpoints: those with the lowest metrics.
  int keep_best = 0;
  // Returns the metric of a checkpoint; called once for each. Threads: those of the trainable.
  std::function<double()> metric{};
  // Returns bytes to store, such as a random generator's state. Only those of rank 0 are stored.
  // Threads: those of `metric`.
  std::function<std::string()> note{};
  std::vector<std::string> names{};  // unique names of state()'s tensors; empty: state.0, ...

  // True: a new job starts from the newest checkpoint in the folder, of any job. Without one it
  // starts from its initial state. A job that lost all its members resumes from its own checkpoint
  // without this option.
  bool resume = false;
  // True: logs a damaged checkpoint, and loads the next older intact one. False: fails with an
  // error that names the file.
  bool skip_damaged = false;

  // The GPU whose memory the tensors of the functions below may be in; below 0: the GPU that the
  // calling thread uses. Empty: all tensors are in the host's memory, and no GPU is used. A session
  // uses its communicator's device instead.
  std::optional<int> device{};

  elastic::FileSystem* files = nullptr;  // another file system, for tests; outlives its user
  base::DeviceSide* devices = nullptr;   // GPUs for tests; outlive their user
};

// A checkpoint that was saved or loaded.
struct Checkpoint {
  std::string folder{};  // of this checkpoint, within the options' folder
  std::string job{};
  uint64_t lineage = 0;     // of the state's label (docs/internals/protocol-step.md)
  uint64_t generation = 0;  // of the state's label
  uint64_t step = 0;        // number of steps that led to this state
  std::optional<double> metric{};
  std::string note{};
  // Saved states of a session's participants. Empty: save_checkpoint() made the checkpoint. A
  // session that starts from it has participants as in a new job.
  std::vector<std::byte> participants{};
};

// Writes a checkpoint of `tensors` without a session, and removes old checkpoints of the job.
// `tensors` are the state after `step`. The job's name has no '/'. Ignores every_steps, every,
// at_end, resume and skip_damaged. On return the checkpoint is completely on the disk. A process
// killed during the call leaves earlier checkpoints intact.
// Threads: any; not two at once for one job and folder.
// Blocks: for the disk, and until the GPU has finished the earlier work of its default stream.
//         Tensors in the GPU's memory are copied through 8 MiB of pinned memory, twice.
// Errors: kInvalidArgument, kExhausted (the disk is full), kUnavailable (the file system fails),
//         with a device also kUnimplemented (no GPU, driver or CUDA). The message names the file
//         and, where it applies, the byte. Earlier checkpoints are unchanged.
FFDL_API Result<Checkpoint> save_checkpoint(const CheckpointOptions& options,
                                            std::span<const Buffer> tensors, uint64_t step,
                                            const std::string& job = "job");

// Loads the newest checkpoint in the options' folder into `tensors`. Any number of members may have
// written it, from any memory. With options.names `tensors` may be some of the checkpoint's, in any
// order, such as the weights without the optimizer's state. Without names they are all of them.
// Checks every byte that it reads against its hash. After an error `tensors` are undefined. On
// return, tensors in a GPU's memory are valid for all streams.
// Errors: kNotFound (no checkpoint), kCorrupt (damaged; the message names the file),
//         kInvalidArgument (the checkpoint has other tensors), kUnavailable, with a device also
//         kUnimplemented.
FFDL_API Result<Checkpoint> load_checkpoint(const CheckpointOptions& options,
                                            std::span<const Buffer> tensors);

}  // namespace ffdl
