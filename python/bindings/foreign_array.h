#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "ffdl/types.h"

// One array of any library, as it describes itself.
namespace ffdl::python {

// The GPU that the calling thread uses, as ffdl's options say it.
inline constexpr int kDeviceInUse = -1;

struct ForeignArray {
  // As NumPy has it: 'i', 'u', 'f'; 'b' for bfloat16, which it has not; '?' for all others.
  char kind = '?';
  int64_t item_bytes = 0;
  void* data = nullptr;
  uint64_t count = 0;  // of elements
  int64_t dimensions = 0;
  std::array<uint64_t, 2> lengths{};  // of the first two dimensions; 0 where there are fewer
  bool contiguous = true;             // in C order
  bool read_only = false;
  pybind11::object owner{};  // the memory stays while it does
  // The GPU in whose memory it lies, or kDeviceInUse where it does not tell which. Nothing: it is
  // the host's.
  std::optional<int> device{};
  std::string type_name{};  // where kind and item_bytes do not say it all

  std::optional<DType> dtype() const;
  bool is_real() const { return kind == 'f' || kind == 'b'; }
  // For messages.
  std::string elements() const;
};

// Whether it speaks one of the protocols below.
bool is_array(const pybind11::object& object);

// `object`: a NumPy array, a tensor that speaks DLPack, or anything with the buffer protocol or, in
// a GPU's memory, __cuda_array_interface__. Nothing is copied, and nothing but that refused: `name`
// stands in the message of InvalidArgument.
// Of arrays in a GPU's memory, what their producer's stream was given comes before what the default
// stream is given from now on, where they speak DLPack.
ForeignArray foreign_array(const pybind11::object& object, const char* name);
// The same for a call that works in the host's memory: one that lies in a GPU's is refused, too.
ForeignArray host_array(const pybind11::object& object, const char* name);

// InvalidArgument: `take array 'name': why`, and two reasons that calls have in common.
[[noreturn]] void refuse_array(const char* name, const std::string& why);
[[noreturn]] void refuse_read_only(const char* name);
[[noreturn]] void refuse_device(const char* name, int device);

// Words for messages: `a list`, `GPU 1`.
std::string a_type(const pybind11::object& object);
std::string gpu_of(int device);

}  // namespace ffdl::python
