#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "ffdl/types.h"

// One array of any library, as it describes itself.
namespace ffdl::python {

// The GPU that the calling thread uses, as in the options of ffdl.
inline constexpr int kDeviceInUse = -1;

struct ForeignArray {
  // The kind as NumPy writes it: 'i', 'u', 'f'. 'b' stands for bfloat16, which NumPy lacks; '?' for
  // all others.
  char kind = '?';
  int64_t item_bytes = 0;
  void* data = nullptr;
  uint64_t count = 0;  // number of elements
  int64_t dimensions = 0;
  std::array<uint64_t, 2> lengths{};  // of the first two dimensions; 0 where there are fewer
  bool contiguous = true;             // in C order
  bool read_only = false;
  pybind11::object owner{};  // keeps the memory valid
  // The GPU in whose memory the array is, or kDeviceInUse if the array does not name it. Empty for
  // memory of the host.
  std::optional<int> device{};
  std::string type_name{};  // set where kind and item_bytes are not enough

  std::optional<DType> dtype() const;
  bool is_real() const { return kind == 'f' || kind == 'b'; }
  // Returns a description of the elements for messages.
  std::string elements() const;
};

// Returns true if `object` supports one of the protocols below.
bool is_array(const pybind11::object& object);

// Describes `object` without a copy. It may be a NumPy array, a tensor that supports DLPack, or an
// object with the buffer protocol. In a GPU's memory it may also have __cuda_array_interface__.
// Errors: InvalidArgument for anything else, with `name` in the message. With DLPack and a GPU, the
// work queued so far on the producer's stream precedes all later work on the default stream.
ForeignArray foreign_array(const pybind11::object& object, const char* name);
// Describes an array for a call that works in the host's memory. Errors: InvalidArgument also for
// an array in a GPU's memory.
ForeignArray host_array(const pybind11::object& object, const char* name);

// Raises InvalidArgument: `take array 'name': why`. The two functions after it give reasons that
// calls share.
[[noreturn]] void refuse_array(const char* name, const std::string& why);
[[noreturn]] void refuse_read_only(const char* name);
[[noreturn]] void refuse_device(const char* name, int device);

// Return words for messages: `a list`, `GPU 1`.
std::string a_type(const pybind11::object& object);
std::string gpu_of(int device);

}  // namespace ffdl::python
