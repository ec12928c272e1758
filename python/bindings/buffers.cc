#include "buffers.h"

#include <pybind11/numpy.h>

#include <optional>
#include <string>

#include "dlpack.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

constexpr char kBFloatKind = 'b';

// What one of the three kinds of arrays says about itself.
struct Found {
  void* data = nullptr;
  uint64_t count = 0;
  std::optional<DType> dtype;
  std::string dtype_name;  // where there is no DType for it
  bool contiguous = true;
  bool read_only = false;
  py::object owner;
};

[[noreturn]] void refuse(const char* name, const std::string& why) {
  raise_invalid_argument("take array '" + std::string(name) + "': " + why);
}

std::string type_name(const py::object& object) {
  return py::str(py::type::of(object).attr("__name__")).cast<std::string>();
}

// `kind` as NumPy has it: 'i' or 'f'; kBFloatKind.
std::optional<DType> dtype_of(char kind, int64_t bytes) {
  if (kind == kBFloatKind && bytes == 2) return DType::kBFloat16;
  if (kind == 'i') {
    if (bytes == 1) return DType::kInt8;
    if (bytes == 2) return DType::kInt16;
    if (bytes == 4) return DType::kInt32;
    if (bytes == 8) return DType::kInt64;
  }
  if (kind == 'f') {
    if (bytes == 2) return DType::kFloat16;
    if (bytes == 4) return DType::kFloat32;
    if (bytes == 8) return DType::kFloat64;
  }
  return std::nullopt;
}

Found numpy_array(const py::array& array) {
  const py::dtype dtype = array.dtype();
  Found found{.data = const_cast<void*>(array.data()),
              .count = static_cast<uint64_t>(array.size()),
              .dtype = {},
              .dtype_name = {},
              .contiguous = (array.flags() & py::array::c_style) != 0,
              .read_only = !array.writeable(),
              .owner = array};
  const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
  if (native) found.dtype = dtype_of(dtype.kind(), dtype.itemsize());
  if (found.dtype) return found;
  found.dtype_name = py::str(py::handle(dtype)).cast<std::string>();
  // That of ml_dtypes: NumPy has none of its own.
  if (found.dtype_name == to_string(DType::kBFloat16)) found.dtype = DType::kBFloat16;
  return found;
}

bool is_contiguous(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = tensor.dimensions - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

py::object dlpack_capsule(const py::object& object, const char* name) {
  const py::object method = object.attr("__dlpack__");
  try {
    return method(py::arg("max_version") = py::make_tuple(1, 0));
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_BufferError)) refuse(name, py::str(error.value()).cast<std::string>());
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();  // it does not know that there are versions
}

// The capsule is not marked as used, so it releases the tensor when it goes.
Found dlpack_tensor(const py::object& object, const char* name) {
  Found found{};
  found.owner = dlpack_capsule(object, name);
  PyObject* const capsule = found.owner.ptr();
  const dlpack::Tensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    const auto* versioned =
        static_cast<dlpack::VersionedTensor*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (versioned->major != 1) {
      refuse(name, "DLPack of version " + std::to_string(versioned->major) + "; give version 1");
    }
    found.read_only = (versioned->flags & dlpack::kReadOnly) != 0;
    tensor = &versioned->tensor;
  } else {
    tensor = static_cast<dlpack::Tensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    if (tensor == nullptr) throw py::error_already_set();
  }
  if (tensor->device_type != dlpack::kCpu && tensor->device_type != dlpack::kPinned) {
    refuse(name, "it lies on a device (of DLPack's type " + std::to_string(tensor->device_type) +
                     "); copy it to the CPU, e.g. with x.cpu()");
  }
  found.data = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  found.count = 1;
  for (int32_t i = 0; i < tensor->dimensions; ++i) {
    found.count *= static_cast<uint64_t>(tensor->shape[i]);
  }
  found.contiguous = found.count == 0 || is_contiguous(*tensor);
  const uint8_t code = tensor->type_code;
  const char kind = code == dlpack::kInt      ? 'i'
                    : code == dlpack::kFloat  ? 'f'
                    : code == dlpack::kBFloat ? kBFloatKind
                                              : '?';
  if (tensor->type_lanes == 1) found.dtype = dtype_of(kind, tensor->type_bits / 8);
  if (!found.dtype) {
    found.dtype_name = "DLPack's type " + std::to_string(code) + " with " +
                       std::to_string(tensor->type_bits) + " bits";
  }
  return found;
}

// A memoryview holds the object's memory in place.
Found exported_buffer(const py::object& object) {
  Found found{};
  found.owner = py::memoryview(object);
  const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(found.owner.ptr());
  found.data = buffer.buf;
  found.count = static_cast<uint64_t>(buffer.len / buffer.itemsize);
  found.contiguous = PyBuffer_IsContiguous(&buffer, 'C') != 0;
  found.read_only = buffer.readonly != 0;
  found.dtype_name = buffer.format == nullptr ? "B" : buffer.format;
  const bool prefixed = found.dtype_name.find_first_of("@=<") == 0;
  const std::string type = found.dtype_name.substr(prefixed ? 1 : 0);
  if (type.size() != 1) return found;
  const bool integer = std::string("bhilq").find(type) != std::string::npos;
  const bool real = std::string("efd").find(type) != std::string::npos;
  if (integer || real) found.dtype = dtype_of(integer ? 'i' : 'f', buffer.itemsize);
  return found;
}

Found find(const py::object& object, const char* name) {
  if (py::isinstance<py::array>(object)) {
    return numpy_array(py::reinterpret_borrow<py::array>(object));
  }
  if (py::hasattr(object, "__dlpack__")) return dlpack_tensor(object, name);
  if (PyObject_CheckBuffer(object.ptr()) != 0) return exported_buffer(object);
  refuse(name, "a " + type_name(object) +
                   "; give a NumPy array, a tensor (DLPack), something with the buffer protocol, "
                   "or a list of these");
}

void add(const py::object& object, const char* name, bool writes, Elements& elements) {
  Found found = find(object, name);
  if (!found.dtype) {
    refuse(name, "elements of " + found.dtype_name +
                     "; give int8, int16, int32, int64, float16, bfloat16, float32 or float64 of "
                     "this machine's byte order (bytes as they are: x.view('int8'))");
  }
  if (!found.contiguous) {
    refuse(name,
           "not C-contiguous; give a contiguous one, or the list of its contiguous parts, such as "
           "its rows");
  }
  if (writes && found.read_only) refuse(name, "it is read-only; give one that can be written");
  elements.buffers.push_back({found.data, found.count, *found.dtype});
  elements.owners.push_back(std::move(found.owner));
}

Elements elements_of(const py::object& given, const char* name, bool writes) {
  Elements elements;
  if (given.is_none()) return elements;
  if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
    for (const py::handle one : given) {
      add(py::reinterpret_borrow<py::object>(one), name, writes, elements);
    }
  } else {
    add(given, name, writes, elements);
  }
  return elements;
}

}  // namespace

Elements elements_to_read(const py::object& given, const char* name) {
  return elements_of(given, name, false);
}

Elements elements_to_write(const py::object& given, const char* name) {
  return elements_of(given, name, true);
}

}  // namespace ffdl::python
