#include "bindings/base/buffers.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

namespace py = pybind11;

namespace ffdl::python {
namespace {

// Notes the GPU of an array; all arrays of a member in GPU memory must be on one GPU.
void add_device(int device, const char* name, Memory memory, Elements& elements) {
  if (memory == Memory::kHost) refuse_device(name, device);
  const int before = elements.device.value_or(kDeviceInUse);
  if (before != kDeviceInUse && device != kDeviceInUse && device != before) {
    refuse_array(name, "it is in the memory of " + gpu_of(device) +
                           ", and other arrays are in that of " + gpu_of(before) +
                           "; put all of them into the memory of one GPU");
  }
  elements.device = std::max(before, device);
}

struct Use {
  bool writes;
  Memory memory;
};

void add(const py::object& object, const char* name, Use use, Elements& elements) {
  ForeignArray array = foreign_array(object, name);
  const std::optional<DType> dtype = array.dtype();
  if (!dtype) {
    refuse_array(name,
                 array.elements() +
                     "; give int8, int16, int32, int64, float16, bfloat16, float32 or float64 of "
                     "this machine's byte order (bytes as they are: x.view('int8'))");
  }
  if (!array.contiguous) {
    refuse_array(name,
                 "not C-contiguous; give a contiguous one, or the list of its contiguous parts, "
                 "such as its rows");
  }
  if (use.writes && array.read_only) refuse_read_only(name);
  if (array.device) add_device(*array.device, name, use.memory, elements);
  elements.buffers.push_back({array.data, array.count, *dtype});
  elements.owners.push_back(std::move(array.owner));
}

// Returns the element type as NumPy writes it; empty if NumPy has no word for it.
std::string typestr_of(const py::object& given, const ForeignArray& array) {
  if (py::isinstance<py::array>(given)) return given.attr("dtype").attr("str").cast<std::string>();
  if (array.kind != 'i' && array.kind != 'u' && array.kind != 'f') return "";
  constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
  return (array.item_bytes == 1 ? '|' : kNative) + (array.kind + std::to_string(array.item_bytes));
}

Elements elements_of(const py::object& given, const char* name, Use use) {
  Elements elements;
  if (given.is_none()) return elements;
  if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
    for (const py::handle one : given) {
      add(py::reinterpret_borrow<py::object>(one), name, use, elements);
    }
  } else {
    add(given, name, use, elements);
  }
  return elements;
}

}  // namespace

Elements elements_to_read(const py::object& given, const char* name, Memory memory) {
  return elements_of(given, name, {.writes = false, .memory = memory});
}

Elements elements_to_write(const py::object& given, const char* name, Memory memory) {
  return elements_of(given, name, {.writes = true, .memory = memory});
}

BytesToWrite bytes_to_write(const py::object& given, const char* name, const std::string& dtype) {
  if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
    refuse_array(name, a_type(given) + "; give one array");
  }
  ForeignArray array = host_array(given, name);
  const std::string typestr = typestr_of(given, array);
  if (array.item_bytes != 1 && typestr != dtype) {
    refuse_array(name, (typestr.empty() ? array.elements() : "elements of " + typestr) + "; give " +
                           dtype + ", as the samples have, or single bytes");
  }
  if (!array.contiguous) refuse_array(name, "not C-contiguous; give a contiguous one");
  if (array.read_only) refuse_read_only(name);
  const auto size = array.count * static_cast<uint64_t>(array.item_bytes);
  return {{static_cast<std::byte*>(array.data), size}, std::move(array.owner)};
}

}  // namespace ffdl::python
