#include "ps/learner/started_push.h"

namespace ffdl::ps {

void StartedPush::begin(const Gradient& given, std::span<const SampleRange> named,
                        uint64_t version) {
  gradient_ = given;
  samples_.assign(named.begin(), named.end());
  version_ = version;
  if (given.form() != Gradient::Form::kSparse) return;
  rows_.clear();
  for (const RowGradient& table : given.tables()) {
    rows_.insert(rows_.end(), table.rows.begin(), table.rows.end());
  }
  tables_.assign(given.tables().begin(), given.tables().end());
  const uint64_t* row = rows_.data();
  for (RowGradient& table : tables_) {
    table.rows = {row, table.rows.size()};
    row += table.rows.size();
  }
  parts_.assign(given.parts().begin(), given.parts().end());
  gradient_ = Gradient::sparse(tables_, parts_);
}

void StartedPush::move_values_to(const std::byte* values) {
  const auto* next = reinterpret_cast<const float*>(values);
  if (gradient_.form() == Gradient::Form::kDense) {
    const auto* halves = reinterpret_cast<const uint16_t*>(values);
    gradient_ = gradient_.type() == DType::kFloat32
                    ? Gradient(std::span(next, gradient_.count()))
                    : Gradient::dense(gradient_.type(), {halves, gradient_.count()});
    return;
  }
  const auto move = [&](std::span<const float>& moved) {
    moved = {next, moved.size()};
    next += moved.size();
  };
  for (RowGradient& table : tables_) move(table.values);
  for (PartGradient& part : parts_) move(part.values);
}

}  // namespace ffdl::ps
