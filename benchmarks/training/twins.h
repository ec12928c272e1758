#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// Two processes that are members of two jobs, one with a checkpoint every ten steps and one
// without. Threads: one. Owns: the processes, their store and the folder of checkpoints.
class CheckpointTwins {
 public:
  static Result<std::unique_ptr<CheckpointTwins>> start(const Shape& shape);
  ~CheckpointTwins();
  CheckpointTwins(const CheckpointTwins&) = delete;
  CheckpointTwins& operator=(const CheckpointTwins&) = delete;

  // Seconds of ten steps, of the first rank; `how` is "with" or "bare". The first of the ten takes
  // the checkpoint; what is not on the disk after the last one is waited for outside of the time.
  Result<double> ten_steps(const std::string& how);

 private:
  explicit CheckpointTwins(std::unique_ptr<StoreFolder> store) : store_(std::move(store)) {}

  const std::unique_ptr<StoreFolder> store_;
  std::unique_ptr<Resident> ranks_[2];
};

// FOLDER RANK LAYERS ROWS: one of them.
Status play_checkpoint_twin(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
