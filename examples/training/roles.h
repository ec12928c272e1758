#pragma once

#include "training/example.h"
#include "training/options.h"

namespace training {

// The exit code of a child that would fail again: the supervisor gives up and starts no other. The
// child has sent the reason in a kFailed message.
inline constexpr int kExitFinal = 3;

// Owns the weights until SIGTERM or the end of its parent.
int run_server(const Example& example, const Invocation& invocation);

// Trains on its partition until all epochs are committed.
int run_learner(const Example& example, const Invocation& invocation);

}  // namespace training
