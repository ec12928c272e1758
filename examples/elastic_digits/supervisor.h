#pragma once

#include "elastic_digits/board.h"

namespace elastic {

// Trains once alone and once with workers that come, die and leave, and compares. Returns the
// program's exit code.
int supervise(const Options& options);

}  // namespace elastic
