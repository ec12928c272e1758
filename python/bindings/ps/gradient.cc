#include "bindings/ps/gradient.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "bindings/base/arrays.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

using Table = std::tuple<uint64_t, py::object, py::object>;
using Part = std::tuple<uint64_t, py::object>;

// Keeps the owner of an array, and notes the GPU that holds it.
template <class Given>
void keep(Given& given, py::object owner, std::optional<int> device) {
  given.owners.push_back(std::move(owner));
  if (device) given.device = std::max(given.device.value_or(*device), *device);
}

std::unique_ptr<GivenGradient> sparse(const std::vector<Table>& tables,
                                      const std::vector<Part>& parts) {
  auto given = std::make_unique<GivenGradient>();
  for (const auto& [table, numbers, values] : tables) {
    auto named = row_numbers(numbers);
    auto matrix = input_matrix(values, named.span.size(), "values", Memory::kAny);
    given->tables.push_back({.table = table,
                             .row_size = matrix.row_size,
                             .rows = named.span,
                             .values = matrix.values.span});
    keep(*given, std::move(named.owner), std::nullopt);
    keep(*given, std::move(matrix.values.owner), matrix.values.device);
  }
  for (const auto& [begin, array] : parts) {
    auto values = input_any_size(array, "values", Memory::kAny);
    given->parts.push_back({.begin = begin, .values = values.span});
    keep(*given, std::move(values.owner), values.device);
  }
  given->gradient = Gradient::sparse(given->tables, given->parts);
  return given;
}

Gradient dense(const DenseArray& array) {
  if (array.dtype == DType::kFloat32) {
    return std::span(static_cast<const float*>(array.data), array.count);
  }
  return Gradient::dense(array.dtype, {static_cast<const uint16_t*>(array.data), array.count});
}

}  // namespace

GivenGradient given_gradient(const py::object& given, uint64_t parameters) {
  GivenGradient taken;
  if (py::isinstance<GivenGradient>(given)) {
    const auto& made = given.cast<const GivenGradient&>();
    taken.gradient = made.gradient;  // its lists are those of `given`
    keep(taken, given, made.device);
    return taken;
  }
  DenseArray array = dense_gradient(given, parameters);
  taken.gradient = dense(array);
  keep(taken, std::move(array.owner), array.device);
  return taken;
}

GivenRows given_rows(const py::sequence& tables) {
  GivenRows given;
  for (const auto& [table, numbers, weights] : tables.cast<std::vector<Table>>()) {
    auto named = row_numbers(numbers);
    auto matrix = output_matrix(weights, named.span.size(), "weights", Memory::kAny);
    given.tables.push_back({.table = table,
                            .row_size = matrix.row_size,
                            .rows = named.span,
                            .values = matrix.values.span});
    keep(given, std::move(named.owner), std::nullopt);
    keep(given, std::move(matrix.values.owner), matrix.values.device);
  }
  return given;
}

void bind_gradient(py::module_& module) {
  py::class_<GivenGradient>(module, "Gradient",
                            R"(A gradient that is no array of all parameters.

A dense gradient is an array by itself: learner.push(array, samples). It is C-contiguous, with
float32, bfloat16 or float16 for each parameter; uint16 are the bits of bfloat16.)")
      .def_static(
          "slot", [] { return std::make_unique<GivenGradient>(); },
          "The gradient in gradient_slot(), which is not copied.")
      .def_static("sparse", &sparse, py::arg("tables") = std::vector<Table>(),
                  py::arg("parts") = std::vector<Part>(),
                  R"(A gradient that touches few of the parameters; the others stay unchanged.

tables: (first parameter of the table, int64[n] rows, float32[n, row_size] values); rows that
repeat are added up. parts: (first parameter, float32[m] values). Rows are in the host's memory.
The server must have been created with rows_max. Keeps the arrays.)");
}

}  // namespace ffdl::python
