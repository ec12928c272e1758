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

// States on a disk, in safetensors files. docs/checkpoints.md has their form, and when one counts.
namespace ffdl {

namespace elastic {
class FileSystem;
}
namespace base {
class DeviceSide;
}

// Where a session (session.h) writes checkpoints, when, and which ones stay. The folder, and when,
// must be the same at all members.
struct CheckpointOptions {
  // Seen by all members; made if it is absent. Of one job at a time. Empty: no checkpoints.
  std::string folder{};
  uint64_t every_steps = 0;  // after each step whose number it divides; 0: not by steps
  Duration every{};          // so long after the last one; 0: not by time

  int keep_last = 2;  // at least 1
  // Beside those: of all that are there, so many with the least metric.
  int keep_best = 0;
  // Asked with each checkpoint. Threads: as those of the trainable.
  std::function<double()> metric{};
  // Bytes of the user's, such as a generator's state. Those of rank 0 are kept. Threads: as above.
  std::function<std::string()> note{};
  std::vector<std::string> names{};  // of the tensors of state(), each its own; empty: state.0, ...

  // A job that begins takes the newest checkpoint in the folder, of whatever job, and where there
  // is none its initial state. A job that lost all its members takes its own without being asked.
  bool resume = false;
  // Where that one is damaged: false is an error that says which file and byte, true takes the next
  // older one that is whole, and logs the same.
  bool skip_damaged = false;

  // The tensors of save_checkpoint() and load_checkpoint() may lie in the memory of this GPU; below
  // 0: of the one that the calling thread uses. Nothing: all are the host's, and no GPU is looked
  // for. A session does not look at it: its memory is that of its communicator.
  std::optional<int> device{};

  elastic::FileSystem* files = nullptr;  // another file system, for tests; outlives its user
  base::DeviceSide* devices = nullptr;   // and another machine's GPUs
};

// A checkpoint that was saved or loaded.
struct Checkpoint {
  std::string folder{};  // its own, below that of the options
  std::string job{};
  uint64_t lineage = 0;     // of the state's label (docs/protocol-step.md)
  uint64_t generation = 0;  // the same
  uint64_t step = 0;        // steps that made it
  std::optional<double> metric{};
  std::string note{};
  std::vector<std::byte> participants{};  // what the participants of a session keep
};

// A state that is saved by one process, without a session.
struct CheckpointState {
  std::string job = "job";  // checkpoints of others are left alone; may not contain '/'
  uint64_t step = 0;
  std::vector<Buffer> tensors{};
};

// Writes one, of all options that are not about time, and removes old ones. When it returns it is
// on the disk whole; whoever is killed meanwhile leaves those of before as they were. Threads: any;
// not two for one job and folder at once. Blocks: as long as the disk does, and until the GPU has
// done what its default stream was given before; tensors there pass through 8 MiB of pinned memory,
// twice.
// Errors: kInvalidArgument, kExhausted (the disk is full), kUnavailable (the file system fails),
//         with a device also kUnimplemented (no GPU, driver or CUDA); the message has the file and,
//         where it applies, the byte. Those of before are as they were.
FFDL_API Result<Checkpoint> save_checkpoint(const CheckpointOptions& options,
                                            const CheckpointState& state);

// Loads the newest in the options' folder into `tensors`, whatever the number of members that wrote
// it and the memory that they wrote it from. Every byte is checked against its hash; `tensors` are
// undefined after an error. In a GPU's memory they are there for all streams when it returns.
// Errors: kNotFound (there is none), kCorrupt (it is damaged: file and byte), kInvalidArgument (it
//         holds other tensors), kUnavailable, with a device also kUnimplemented.
FFDL_API Result<Checkpoint> load_checkpoint(const CheckpointOptions& options,
                                            std::span<const Buffer> tensors);

}  // namespace ffdl
