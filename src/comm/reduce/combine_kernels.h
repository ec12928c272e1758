#pragma once

#include <cstdint>

#include "ffdl/comm/communicator.h"

// Computes one level of a reduction's tree: into[i] = left[i] op right[i], vectorised for the
// present processor (Highway). `into` may be `left` or `right`. There is one operation per element.
// So the bits of an element depend neither on its place nor on the width of the vectors. kMean
// adds.
namespace ffdl::comm {

void combine(ReduceOp op, const float* left, const float* right, float* into, uint64_t count);
void combine(ReduceOp op, const double* left, const double* right, double* into, uint64_t count);
void combine(ReduceOp op, const int64_t* left, const int64_t* right, int64_t* into, uint64_t count);

}  // namespace ffdl::comm
