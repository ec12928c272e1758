#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/base/foreign_array.h"
#include "ffdl/types.h"

// Conversion of arrays from users to Buffers, without a copy or a conversion of elements.
namespace ffdl::python {

// Buffers, and the objects that own their memory. The interpreter lock is held at destruction.
struct Elements {
  std::vector<Buffer> buffers;
  std::vector<pybind11::object> owners;
  // The GPU that holds some of the buffers, as in ForeignArray. Empty if all are in the memory of
  // the host.
  std::optional<int> device{};
};

// The memory that a call can use. A caller that passes kAny checks Elements::device, since the
// processor cannot access the memory of a GPU.
enum class Memory { kHost, kAny };

// Converts `given`: an array that foreign_array() takes, a list or tuple of them, or None for
// nothing. Errors: InvalidArgument, with `name` in the message, for anything that cannot be used in
// place.
Elements elements_to_read(const pybind11::object& given, const char* name,
                          Memory memory = Memory::kHost);
Elements elements_to_write(const pybind11::object& given, const char* name,
                           Memory memory = Memory::kHost);

// Memory of the host, and the object that owns it. The interpreter lock is held at destruction.
struct BytesToWrite {
  std::span<std::byte> bytes;
  pybind11::object owner;
};
// Returns the writable memory of one object. Its elements are single bytes, or have the type
// `dtype` as NumPy writes it.
BytesToWrite bytes_to_write(const pybind11::object& given, const char* name,
                            const std::string& dtype);

}  // namespace ffdl::python
