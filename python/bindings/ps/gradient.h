#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ffdl/ps/learner.h"

namespace ffdl::python {

// A gradient that Python gave, with the objects that keep its arrays. The interpreter lock is held
// at destruction.
struct GivenGradient {
  Gradient gradient = Gradient::slot();
  std::vector<RowGradient> tables{};
  std::vector<PartGradient> parts{};
  std::vector<pybind11::object> owners{};
  std::optional<int> device{};  // the GPU that holds values, as in ForeignArray
};

// Returns a Gradient of Python, or the dense gradient that an array holds: `parameters` elements of
// float32, bfloat16 or float16. An array of uint16 holds the bits of bfloat16, which NumPy lacks.
// Errors: InvalidArgument.
GivenGradient given_gradient(const pybind11::object& given, uint64_t parameters);

// Rows of tables that receive weights, and the objects that keep their arrays.
struct GivenRows {
  std::vector<RowWeights> tables{};
  std::vector<pybind11::object> owners{};
  std::optional<int> device{};
};
// Converts a sequence of (first parameter of the table, rows, weights). Errors: InvalidArgument.
GivenRows given_rows(const pybind11::sequence& tables);

// Adds the class Gradient.
void bind_gradient(pybind11::module_& module);

}  // namespace ffdl::python
