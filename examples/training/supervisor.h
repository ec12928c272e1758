#pragma once

#include "training/example.h"
#include "training/options.h"

namespace training {

// The exit code if the requested GPU, or a library for it, is missing; the message before it names
// it.
inline constexpr int kExitNoDevice = 4;

// Starts the server and the learners, and restarts them when they die. It watches the training and
// checks at the end that each sample was used exactly once per epoch. Returns the exit code. Leaves
// no process and no shared memory behind in any case.
int run_supervisor(const Example& example, const TrainOptions& options);

}  // namespace training
