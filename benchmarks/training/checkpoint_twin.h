#pragma once

#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// FOLDER RANK LAYERS ROWS: one of two processes (rescale/twins.h) that are members of two jobs.
// Trains ten steps "with" a checkpoint, or "bare". The first of the ten takes the checkpoint; what
// is not on the disk after the last one is waited for outside of the time. Asked for "cpu" it says
// for how many seconds the thread that writes has had a processor.
Status play_checkpoint_twin(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
