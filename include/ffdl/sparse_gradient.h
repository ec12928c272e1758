#pragma once

#include <cstdint>
#include <span>

// Gradients that touch a small part of the parameters, as those of embedding tables do.
namespace ffdl {

// The gradient of some rows of one table.
struct RowGradient {
  uint64_t table = 0;                // first parameter of the table
  uint64_t row_size = 0;             // floats per row
  std::span<const uint64_t> rows{};  // in any order; a row that comes again is added up
  std::span<const float> values{};   // rows.size() x row_size, row-major
};

// The gradient of the parameters [begin, begin + values.size()), for layers that are not sparse.
struct DenseGradient {
  uint64_t begin = 0;
  std::span<const float> values{};
};

// The gradient of one mini-batch. What it does not name is not touched: an update rule then leaves
// weight and state alone, where a zero in a dense gradient would still let momentum move them
// (as torch.optim.SparseAdam does, not Adam). Rows and parts must not overlap each other.
// Owns: nothing; the arrays are read by the push that it is given to.
struct SparseGradient {
  std::span<const RowGradient> tables{};
  std::span<const DenseGradient> dense{};
};

}  // namespace ffdl
