#pragma once

#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// FOLDER RANK LAYERS ROWS RANKS: one of the processes (rescale/twins.h) that are members of several
// jobs, each of which begins when it is first asked for. Asked for a job it trains a piece of it,
// and says in how many seconds:
//   bare      ten steps of ROWS rows a member
//   with      the same with a checkpoint, which the first of the ten takes; what is not on the disk
//             after the last one is waited for outside of the time
//   noise     the same, and the noise of gradients is measured once
//   virtual   two steps of kVirtualWorkers micro-batches of ROWS rows, shared by the members
//   whole     two steps of as many rows, of which each member computes its share at once
//   cpu       no job: for how many seconds the thread that writes has had a processor
Status play_training_twin(const std::vector<std::string>& arguments);

inline constexpr int kVirtualWorkers = 8;

}  // namespace ffdl::bench
