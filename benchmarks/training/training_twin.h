#pragma once

#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// Runs one of the processes (rescale/twins.h) that are members of several jobs. Arguments: FOLDER
// RANK LAYERS ROWS RANKS. Each job begins at the first request for it. For the name of a job the
// process trains a piece of it and answers with the seconds:
//   bare      ten steps of ROWS rows a member
//   with      ten such steps with a checkpoint, which the first of them takes; writes that remain
//             after the last step are waited for off the clock
//   noise     ten such steps, and the noise of gradients is measured once
//   virtual   two steps of kVirtualWorkers micro-batches of ROWS rows, shared by the members
//   whole     two steps of as many rows; each member computes its share at once
//   cpu       no job: the seconds of processor time that the writing thread has had
Status play_training_twin(const std::vector<std::string>& arguments);

inline constexpr int kVirtualWorkers = 8;

}  // namespace ffdl::bench
