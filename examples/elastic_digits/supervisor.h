#pragma once

#include "elastic_digits/board.h"

namespace elastic {

// Trains once with one worker and once with workers that join, die and leave, and compares the two.
// Returns the program's exit code.
int supervise(const Options& options);

}  // namespace elastic
