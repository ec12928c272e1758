#pragma once

#include "training/example.h"
#include "training/options.h"

namespace training {

// The exit code where the GPU that was asked for, or a library for it, is missing; the sentence
// before it says which.
inline constexpr int kExitNoDevice = 4;

// Starts the server and the learners, starts them again when they die, watches the training and
// checks at the end that each sample was used exactly once per epoch. Returns the exit code.
// Leaves no process and no shared memory behind, whatever happens.
int run_supervisor(const Example& example, const TrainOptions& options);

}  // namespace training
