#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/types.h"
#include "foreign_array.h"

// What users give as arrays, as Buffers: no copy, no conversion.
namespace ffdl::python {

// Buffers, and the objects whose memory they are. The interpreter lock is held when it goes.
struct Elements {
  std::vector<Buffer> buffers;
  std::vector<pybind11::object> owners;
  // The GPU in whose memory some of them lie, as in ForeignArray. Nothing: all are the host's.
  std::optional<int> device{};
};

// Which memory a call can reach. Who takes kAny looks at Elements::device: the processor cannot
// touch what lies there.
enum class Memory { kHost, kAny };

// `given`: an array as foreign_array() takes it, or a list or tuple of them; None for nothing. What
// cannot be taken as it lies is InvalidArgument, with `name` in the message.
Elements elements_to_read(const pybind11::object& given, const char* name,
                          Memory memory = Memory::kHost);
Elements elements_to_write(const pybind11::object& given, const char* name,
                           Memory memory = Memory::kHost);

// Memory of the host, and the object whose it is. The interpreter lock is held when it goes.
struct BytesToWrite {
  std::span<std::byte> bytes;
  pybind11::object owner;
};
// The same of one such object, whose elements are single bytes or `dtype`, as NumPy writes it.
BytesToWrite bytes_to_write(const pybind11::object& given, const char* name,
                            const std::string& dtype);

}  // namespace ffdl::python
