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

// States on a disk, in safetensors files. docs/guide/checkpoints.md defines their format and when a
// checkpoint counts.
namespace ffdl {

namespace elastic {
class FileSystem;
}
namespace base {
class DeviceSide;
}

// The folder and times of a session's checkpoints (session.h), and the number that is kept. The
// folder and the times must be the same at all members.
struct CheckpointOptions {
  // The folder, visible to all members; created if it is absent. Used by one job at a time. Empty:
  // no checkpoints.
  std::string folder{};
  uint64_t every_steps = 0;  // after each step that is a multiple of it; 0: not by steps
  Duration every{};          // the time since the last checkpoint; 0: not by time
  // Writes a checkpoint of the last step in Session::finish(), unless there is one. A later process
  // then has the final state of the training.
  bool at_end = true;

  int keep_last = 2;  // at least 1
  // Besides those, keeps this many of all checkpoints there: the ones with the least metric.
  int keep_best = 0;
  // Returns the metric; called with each checkpoint. Threads: as those of the trainable.
  std::function<double()> metric{};
  // Returns bytes of the caller, such as a generator's state. Those of rank 0 are stored. Threads:
  // those of `metric`.
  std::function<std::string()> note{};
  std::vector<std::string> names{};  // unique names of state()'s tensors; empty: state.0, ...

  // Starts a new job from the newest checkpoint in the folder, of any job. Without one it starts
  // from its initial state. A job that lost all its members resumes from its own checkpoint without
  // this option.
  bool resume = false;
  // Skips a damaged checkpoint: logs it and takes the next older one that is intact. False: fails
  // with an error that names the file and the byte.
  bool skip_damaged = false;

  // The GPU whose memory the tensors of save_checkpoint() and load_checkpoint() may be in; below 0:
  // the one that the calling thread uses. Empty: all tensors are in the host's memory, and no GPU
  // is looked for. A session ignores this: the device of its communicator counts.
  std::optional<int> device{};

  elastic::FileSystem* files = nullptr;  // another file system, for tests; outlives its user
  base::DeviceSide* devices = nullptr;   // and another machine's GPUs
};

// A checkpoint that was saved or loaded.
struct Checkpoint {
  std::string folder{};  // of this checkpoint, below that of the options
  std::string job{};
  uint64_t lineage = 0;     // of the state's label (docs/internals/protocol-step.md)
  uint64_t generation = 0;  // of the same label
  uint64_t step = 0;        // number of steps that led to this state
  std::optional<double> metric{};
  std::string note{};
  // Saved states of a session's participants. Empty: of save_checkpoint(); a session that begins
  // from it has them as in a new job.
  std::vector<std::byte> participants{};
};

// Writes a checkpoint of `tensors`, the state after `step`, without a session, and removes old ones
// of that job, whose name has no '/'. Uses all options except those about time. On return the
// checkpoint is completely on the disk. A process killed during the call leaves earlier ones whole.
// Threads: any; not two at once for one job and folder.
// Blocks: for the disk, and until the GPU has finished the earlier work of its default stream.
//         Tensors in its memory pass through 8 MiB of pinned memory, twice.
// Errors: kInvalidArgument, kExhausted (the disk is full), kUnavailable (the file system fails),
//         with a device also kUnimplemented (no GPU, driver or CUDA). The message names the file
//         and, where it applies, the byte. Earlier checkpoints are unchanged.
FFDL_API Result<Checkpoint> save_checkpoint(const CheckpointOptions& options,
                                            std::span<const Buffer> tensors, uint64_t step,
                                            const std::string& job = "job");

// Loads the newest checkpoint in the options' folder into `tensors`. The number of members that
// wrote it, and the kind of memory, do not matter. Checks every byte against its hash. After an
// error `tensors` are undefined. Tensors in a GPU's memory are valid for all streams on return.
// Errors: kNotFound (there is none), kCorrupt (damaged; names the file and the byte),
//         kInvalidArgument (it holds other tensors), kUnavailable, with a device also
//         kUnimplemented.
FFDL_API Result<Checkpoint> load_checkpoint(const CheckpointOptions& options,
                                            std::span<const Buffer> tensors);

}  // namespace ffdl
