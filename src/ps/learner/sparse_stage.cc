#include "ps/learner/sparse_stage.h"

#include <algorithm>

#include "base/errors.h"
#include "ps/rules/gradient_kernels.h"

namespace ffdl::ps {

using base::invalid_argument;

Status SparseStage::stage(std::span<const RowGradient> tables, std::span<const PartGradient> parts,
                          uint64_t parameters) {
  parts_.clear();
  for (const RowGradient& rows : tables) {
    FFDL_RETURN_IF_ERROR(collect_rows(rows, parameters));
  }
  for (const PartGradient& part : parts) {
    FFDL_RETURN_IF_ERROR(collect_part(part, parameters));
  }
  // Stable: repeated rows are added up in the caller's order.
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return add_up();
}

Status SparseStage::collect_rows(const RowGradient& rows, uint64_t parameters) {
  if (rows.row_size == 0 || rows.values.size() != rows.rows.size() * rows.row_size) {
    return invalid_argument(
        "push rows of the table at parameter {}: {} rows of {} floats and {} values; give "
        "row_size values for each row",
        rows.table, rows.rows.size(), rows.row_size, rows.values.size());
  }
  const uint64_t rows_there =
      rows.table < parameters ? (parameters - rows.table) / rows.row_size : 0;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    if (rows.rows[i] >= rows_there) {
      return invalid_argument(
          "push rows of the table at parameter {}: row {}; with {} floats per row there are {} "
          "rows up to the last of {} parameters",
          rows.table, rows.rows[i], rows.row_size, rows_there, parameters);
    }
    parts_.push_back({rows.table + rows.rows[i] * rows.row_size, rows.row_size,
                      rows.values.data() + i * rows.row_size});
  }
  return {};
}

Status SparseStage::collect_part(const PartGradient& part, uint64_t parameters) {
  if (part.begin > parameters || part.values.size() > parameters - part.begin) {
    return invalid_argument("push {} floats from parameter {} on: the server has {} parameters",
                            part.values.size(), part.begin, parameters);
  }
  if (!part.values.empty()) {
    parts_.push_back({part.begin, part.values.size(), part.values.data()});
  }
  return {};
}

Status SparseStage::add_up() {
  ranges_.clear();
  values_.clear();
  const Part* last = nullptr;
  for (const Part& part : parts_) {
    if (last != nullptr && last->begin == part.begin && last->count == part.count) {
      add_scaled(values_.data() + values_.size() - part.count, part.values, 1.0F, part.count);
      continue;
    }
    if (!ranges_.empty() && part.begin < ranges_.back().end) {
      return invalid_argument(
          "push a sparse gradient: parameters [{}, {}) overlap another row or part that ends at "
          "{}; name each parameter by one table or part",
          part.begin, part.begin + part.count, ranges_.back().end);
    }
    values_.insert(values_.end(), part.values, part.values + part.count);
    if (!ranges_.empty() && part.begin == ranges_.back().end) {
      ranges_.back().end += part.count;
    } else {
      ranges_.push_back({part.begin, part.begin + part.count});
    }
    last = &part;
  }
  return {};
}

}  // namespace ffdl::ps
