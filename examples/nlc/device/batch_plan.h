#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nlc/gather.h"

namespace nlc {

// A mini-batch as kernels read it: its distinct rows, the place of each feature's row, and the
// texts that use a row. Numbers for kernels have 32 bits.
struct BatchPlan {
  std::vector<uint64_t> rows;  // of the table, in the order in which they first occur

  // The features in order, text after text.
  std::vector<uint32_t> place;  // in `rows`
  std::vector<float> factors;
  std::vector<uint32_t> text_ends;  // of each text's features
  std::vector<uint32_t> labels;     // of each text

  // The uses of the rows, row after row. Those of a row are in the order of the features.
  std::vector<uint32_t> row_ends;
  std::vector<uint32_t> use_texts;
  std::vector<float> use_factors;

  uint32_t texts() const { return static_cast<uint32_t>(text_ends.size()); }
};

// Plans mini-batches. It remembers the places of a table's rows, so that the cost of a plan depends
// on its mini-batch, not on the table.
// Threads: one at a time.
class BatchPlanner {
 public:
  explicit BatchPlanner(std::size_t table_rows) : places_(table_rows, kNowhere) {}

  // Overwrites `plan`, which keeps its memory.
  void make(const Gathered& mini_batch, BatchPlan& plan);

 private:
  static constexpr uint32_t kNowhere = 0xFFFFFFFFU;
  std::vector<uint32_t> places_;  // the place in the plan of each row of the table
  std::vector<uint32_t> next_;    // for each row of the plan: the place of its next use
};

}  // namespace nlc
