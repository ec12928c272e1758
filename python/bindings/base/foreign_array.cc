#include "bindings/base/foreign_array.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "bindings/base/dlpack.h"
#include "bindings/base/status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

constexpr char kBFloatKind = 'b';
constexpr char kOtherKind = '?';

// Length is ssize_t or int64_t.
template <class Length>
void set_shape(std::span<const Length> shape, ForeignArray& array) {
  array.count = 1;
  array.dimensions = static_cast<int64_t>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto length = static_cast<uint64_t>(shape[i]);
    array.count *= length;
    if (i < array.lengths.size()) array.lengths[i] = length;
  }
}

// Returns true for a C-contiguous array. `strides` are in units in which adjacent elements are
// `step` apart; null means C-contiguous.
bool is_contiguous(std::span<const int64_t> shape, uint64_t count, const int64_t* strides,
                   int64_t step) {
  if (strides == nullptr || count == 0) return true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

ForeignArray numpy_array(const py::array& given) {
  const py::dtype dtype = given.dtype();
  ForeignArray array;
  array.data = const_cast<void*>(given.data());
  set_shape(std::span(given.shape(), static_cast<size_t>(given.ndim())), array);
  array.item_bytes = dtype.itemsize();
  array.contiguous = (given.flags() & py::array::c_style) != 0;
  array.read_only = !given.writeable();
  array.owner = given;
  const char kind = dtype.kind();
  const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
  if (native && (kind == 'i' || kind == 'u' || kind == 'f')) {
    array.kind = kind;
    return array;
  }
  array.type_name = py::str(py::handle(dtype)).cast<std::string>();
  // The bfloat16 of ml_dtypes: NumPy has none of its own.
  if (array.type_name == to_string(DType::kBFloat16)) array.kind = kBFloatKind;
  return array;
}

// Returns the arguments of __dlpack__. On a GPU they name the default stream to the producer, so
// its earlier work precedes later work on that stream. On the CPU there is no stream.
py::dict dlpack_options(const py::object& object) {
  py::dict options;
  if (!py::hasattr(object, "__dlpack_device__")) return options;
  const auto [type, number] = object.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (type == dlpack::kCuda || type == dlpack::kManaged) {
    options["stream"] = dlpack::kDefaultStream;
  }
  return options;
}

py::object dlpack_capsule(const py::object& object, const char* name) {
  const py::object method = object.attr("__dlpack__");
  const py::dict options = dlpack_options(object);
  try {
    return method(py::arg("max_version") = py::make_tuple(1, 0), **options);
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_BufferError)) {
      refuse_array(name, py::str(error.value()).cast<std::string>());
    }
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method(**options);  // the producer does not know versions
}

// Returns the name of a type that no array may have. The producer names types that have a number
// alone here, such as torch.float8_e5m2.
std::string name_of_type(const py::object& producer, uint8_t code, uint8_t bits) {
  if (code == dlpack::kBool) return "bool";
  if (code == dlpack::kUInt) return "uint" + std::to_string(bits);
  if (code == dlpack::kFloat) return "float" + std::to_string(bits);
  if (code == dlpack::kComplex) return "complex" + std::to_string(bits);
  if (py::hasattr(producer, "dtype")) return py::str(producer.attr("dtype")).cast<std::string>();
  return "a type of " + std::to_string(bits) + " bits (DLPack's number " + std::to_string(code) +
         ")";
}

void set_dlpack_type(const py::object& producer, const dlpack::Tensor& tensor,
                     ForeignArray& array) {
  const uint8_t code = tensor.type_code;
  array.item_bytes = int64_t{tensor.type_bits} * tensor.type_lanes / 8;
  array.kind = tensor.type_lanes != 1    ? kOtherKind
               : code == dlpack::kInt    ? 'i'
               : code == dlpack::kUInt   ? 'u'
               : code == dlpack::kFloat  ? 'f'
               : code == dlpack::kBFloat ? kBFloatKind
                                         : kOtherKind;
  if (array.dtype()) return;
  array.type_name = name_of_type(producer, code, tensor.type_bits);
}

// Leaves the capsule unmarked, so that it releases the tensor when it is destroyed.
ForeignArray dlpack_tensor(const py::object& object, const char* name) {
  ForeignArray array;
  array.owner = dlpack_capsule(object, name);
  PyObject* const capsule = array.owner.ptr();
  const dlpack::Tensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    const auto* versioned =
        static_cast<dlpack::VersionedTensor*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (versioned->major != 1) {
      refuse_array(name,
                   "DLPack of version " + std::to_string(versioned->major) + "; give version 1");
    }
    array.read_only = (versioned->flags & dlpack::kReadOnly) != 0;
    tensor = &versioned->tensor;
  } else {
    tensor = static_cast<dlpack::Tensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    if (tensor == nullptr) throw py::error_already_set();
  }
  const int32_t type = tensor->device_type;
  if (type == dlpack::kCuda || type == dlpack::kManaged) {
    array.device = tensor->device_id;
  } else if (type != dlpack::kCpu && type != dlpack::kPinned) {
    refuse_array(name, "it is on a device other than an NVIDIA GPU (DLPack's type " +
                           std::to_string(type) + "); copy it to the CPU, e.g. with x.cpu()");
  }
  array.data = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  const std::span<const int64_t> shape(tensor->shape, static_cast<size_t>(tensor->dimensions));
  set_shape(shape, array);
  array.contiguous = is_contiguous(shape, array.count, tensor->strides, 1);
  set_dlpack_type(object, *tensor, array);
  return array;
}

// Reads the CUDA Array Interface, version 2 or 3. It does not state the number of the GPU.
ForeignArray cuda_array(const py::object& object, const char* name) {
  const py::dict told = object.attr("__cuda_array_interface__");
  const auto field = [&](const char* key) -> py::object {
    return told.contains(key) ? py::object(told[key]) : py::none();
  };
  if (!field("mask").is_none()) refuse_array(name, "it has a mask; give an array without a mask");
  const py::object stream = field("stream");
  if (!stream.is_none() && !stream.equal(py::int_(dlpack::kDefaultStream))) {
    refuse_array(name,
                 "it is used by a stream other than the default stream; wait for that stream, and "
                 "give the array without a stream, or through DLPack");
  }
  const auto [address, read_only] = field("data").cast<std::pair<uint64_t, bool>>();
  const auto type = field("typestr").cast<std::string>();
  const auto shape = field("shape").cast<std::vector<int64_t>>();
  const auto strides = field("strides").cast<std::optional<std::vector<int64_t>>>();
  ForeignArray array;
  array.data = std::bit_cast<void*>(address);
  array.read_only = read_only;
  array.owner = object;
  array.device = kDeviceInUse;
  array.type_name = type;
  set_shape(std::span<const int64_t>(shape), array);
  constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
  if (type.size() < 3 || (type[0] != '|' && type[0] != kNative)) return array;
  array.item_bytes = type[2] - '0';  // no element has 10 bytes or more
  if (type.size() == 3) array.kind = type[1];
  array.contiguous =
      is_contiguous(shape, array.count, strides ? strides->data() : nullptr, array.item_bytes);
  return array;
}

// Describes a buffer; its memoryview keeps the object's memory in place.
ForeignArray exported_buffer(const py::object& object) {
  ForeignArray array;
  array.owner = py::memoryview(object);
  const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(array.owner.ptr());
  array.data = buffer.buf;
  array.item_bytes = buffer.itemsize;
  set_shape(std::span<const Py_ssize_t>(buffer.shape, static_cast<size_t>(buffer.ndim)), array);
  array.contiguous = PyBuffer_IsContiguous(&buffer, 'C') != 0;
  array.read_only = buffer.readonly != 0;
  array.type_name = buffer.format == nullptr ? "B" : buffer.format;
  const bool prefixed = array.type_name.find_first_of("@=<") == 0;
  const std::string type = array.type_name.substr(prefixed ? 1 : 0);
  if (type.size() != 1) return array;
  const auto is_one_of = [&](const char* letters) {
    return std::string(letters).find(type) != std::string::npos;
  };
  array.kind = is_one_of("bhilq")   ? 'i'
               : is_one_of("BHILQ") ? 'u'
               : is_one_of("efd")   ? 'f'
                                    : kOtherKind;
  return array;
}

}  // namespace

std::optional<DType> ForeignArray::dtype() const {
  if (kind == kBFloatKind && item_bytes == 2) return DType::kBFloat16;
  if (kind == 'i') {
    if (item_bytes == 1) return DType::kInt8;
    if (item_bytes == 2) return DType::kInt16;
    if (item_bytes == 4) return DType::kInt32;
    if (item_bytes == 8) return DType::kInt64;
  }
  if (kind == 'f') {
    if (item_bytes == 2) return DType::kFloat16;
    if (item_bytes == 4) return DType::kFloat32;
    if (item_bytes == 8) return DType::kFloat64;
  }
  return std::nullopt;
}

std::string ForeignArray::elements() const {
  if (kind == kOtherKind || !type_name.empty()) return "elements of " + type_name;
  if (const std::optional<DType> known = dtype()) {
    return "elements of " + std::string(to_string(*known));
  }
  return std::string("elements of ") + (kind == 'u' ? "uint" : "float") +
         std::to_string(8 * item_bytes);
}

bool is_array(const py::object& object) {
  return py::isinstance<py::array>(object) || py::hasattr(object, "__dlpack__") ||
         py::hasattr(object, "__cuda_array_interface__") || PyObject_CheckBuffer(object.ptr()) != 0;
}

ForeignArray foreign_array(const py::object& object, const char* name) {
  if (py::isinstance<py::array>(object)) {
    return numpy_array(py::reinterpret_borrow<py::array>(object));
  }
  if (py::hasattr(object, "__dlpack__")) return dlpack_tensor(object, name);
  if (py::hasattr(object, "__cuda_array_interface__")) return cuda_array(object, name);
  if (PyObject_CheckBuffer(object.ptr()) != 0) return exported_buffer(object);
  refuse_array(name,
               a_type(object) +
                   "; give a NumPy array, a tensor (DLPack), an object with the buffer protocol "
                   "or __cuda_array_interface__");
}

ForeignArray host_array(const py::object& object, const char* name) {
  ForeignArray array = foreign_array(object, name);
  if (array.device) refuse_device(name, *array.device);
  return array;
}

void refuse_array(const char* name, const std::string& why) {
  raise_invalid_argument("take array '" + std::string(name) + "': " + why);
}

void refuse_read_only(const char* name) {
  refuse_array(name, "it is read-only; give one that can be written");
}

void refuse_device(const char* name, int device) {
  refuse_array(name, "it is in the memory of " + gpu_of(device) +
                         ", and this call uses the host's; copy it to the CPU, e.g. with "
                         "x.cpu()");
}

std::string a_type(const py::object& object) {
  return "a " + py::str(py::type::of(object).attr("__name__")).cast<std::string>();
}

std::string gpu_of(int device) {
  return device == kDeviceInUse ? "a GPU" : "GPU " + std::to_string(device);
}

}  // namespace ffdl::python
