#pragma once

#include <cstdint>
#include <span>

#include "cluster/plan/choose_sizes.h"

namespace ffdl::cluster {

// Computes one row of the dynamic program: for each c
//   after[c] = max over choices of before[c - weight] + value,   pick[c] = the first choice that
//   attains it.
// before must be readable from minus the largest weight on (with -infinity there). The spans after
// and pick have the same length.
void max_plus_row(const double* before, std::span<const Choice> choices, std::span<double> after,
                  std::span<uint16_t> pick);

}  // namespace ffdl::cluster
