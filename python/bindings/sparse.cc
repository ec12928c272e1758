#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "ffdl/sparse_gradient.h"
#include "learner_handle.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

using Table = std::tuple<uint64_t, py::object, py::object>;
using Dense = std::tuple<uint64_t, py::object>;

PushResult push_sparse(LearnerHandle& handle, SampleRange samples, const std::vector<Table>& tables,
                       const std::vector<Dense>& dense) {
  std::vector<py::object> arrays;  // stay where they are
  std::vector<RowGradient> rows;
  for (const auto& [begin, numbers, values] : tables) {
    auto named = row_numbers(numbers);
    auto matrix = input_matrix(values, named.span.size(), "values");
    rows.push_back({.table = begin,
                    .row_size = matrix.row_size,
                    .rows = named.span,
                    .values = matrix.values.span});
    arrays.push_back(std::move(named.owner));
    arrays.push_back(std::move(matrix.values.owner));
  }
  std::vector<DenseGradient> parts;
  for (const auto& [begin, values] : dense) {
    auto part = input_any_size(values, "values");
    parts.push_back({.begin = begin, .values = part.span});
    arrays.push_back(std::move(part.owner));
  }
  const SparseGradient gradient{.tables = rows, .dense = parts};
  return take(use(handle, [&](Learner& l) { return l.push_sparse(gradient, samples); }));
}

}  // namespace

void bind_sparse(py::class_<LearnerHandle>& learner) {
  learner
      .def("push_sparse", &push_sparse, py::arg("samples"), py::kw_only(),
           py::arg("tables") = std::vector<Table>(), py::arg("dense") = std::vector<Dense>(),
           R"(push() for a gradient that touches few of the parameters; the others are left alone.

tables: (first parameter of the table, int64[n] rows, float32[n, row_size] values); a row that
comes again is added up. dense: (first parameter, float32[m] values).
The server must have been created with rows_max.)")
      .def(
          "push_ranges",
          [](LearnerHandle& handle, const py::object& gradient,
             const std::vector<SampleRange>& samples) {
            const auto values = input(gradient, handle.learner->parameters(), "gradient");
            return take(
                use(handle, [&](Learner& l) { return l.push_ranges(values.span, samples); }));
          },
          py::arg("gradient"), py::arg("samples"),
          "push() for one gradient of several separate sample ranges, in the order of their use.")
      .def(
          "push_ranges",
          [](LearnerHandle& handle, const std::vector<SampleRange>& samples) {
            return take(use(handle, [&](Learner& l) { return l.push_ranges(samples); }));
          },
          py::arg("samples"), "The same for the gradient in gradient_slot().")
      .def(
          "push_halves",
          [](LearnerHandle& handle, GradientType type, const py::object& gradient,
             SampleRange samples) {
            const auto bits = input_halves(gradient, type, handle.learner->parameters());
            return take(
                use(handle, [&](Learner& l) { return l.push_halves(type, bits.span, samples); }));
          },
          py::arg("type"), py::arg("gradient"), py::arg("samples"),
          R"(push() for 16-bit numbers: FLOAT16 takes a float16 array.

BFLOAT16 takes one of bfloat16, such as a tensor, or the bits of one as uint16.)")
      .def(
          "push_ranges",
          [](LearnerHandle& handle, GradientType type, const py::object& gradient,
             const std::vector<SampleRange>& samples) {
            const auto bits = input_halves(gradient, type, handle.learner->parameters());
            return take(
                use(handle, [&](Learner& l) { return l.push_ranges(type, bits.span, samples); }));
          },
          py::arg("type"), py::arg("gradient"), py::arg("samples"),
          "The same for several separate sample ranges.")
      .def(
          "pull_rows",
          [](LearnerHandle& handle, uint64_t table, const py::object& rows,
             const py::object& weights) {
            const auto numbers = row_numbers(rows);
            const auto matrix = output_matrix(weights, numbers.span.size(), "weights");
            return take(use(handle, [&](Learner& l) {
              return l.pull_rows(table, matrix.row_size, numbers.span, matrix.values.span);
            }));
          },
          py::arg("table"), py::arg("rows"), py::arg("weights"),
          "Copies rows of the table that begins at parameter `table` into float32[n, row_size];\n"
          "returns the version.");
}

}  // namespace ffdl::python
