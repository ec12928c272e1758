#pragma once

#include <cstdint>

// The part of DLPack's binary interface that is read here, versions 0 and 1. Other libraries define
// the layout of these structs, so no member may move.
namespace ffdl::python::dlpack {

inline constexpr int32_t kCpu = 1;
inline constexpr int32_t kCuda = 2;
inline constexpr int32_t kPinned = 3;    // memory of the CPU that a GPU can access
inline constexpr int32_t kManaged = 13;  // memory that CUDA moves between the two

// The value that names CUDA's default stream to a producer. That stream waits for other streams.
inline constexpr int kDefaultStream = 1;

inline constexpr uint8_t kInt = 0;
inline constexpr uint8_t kUInt = 1;
inline constexpr uint8_t kFloat = 2;
inline constexpr uint8_t kBFloat = 4;
inline constexpr uint8_t kComplex = 5;
inline constexpr uint8_t kBool = 6;

struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t dimensions;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null: C-contiguous
  uint64_t byte_offset;
};
static_assert(sizeof(Tensor) == 48);

// The struct behind a capsule "dltensor_versioned". A capsule "dltensor" points at a struct that
// begins with a Tensor.
struct VersionedTensor {
  uint32_t major;
  uint32_t minor;
  void* manager;
  void (*release)(VersionedTensor*);
  uint64_t flags;
  Tensor tensor;
};
static_assert(sizeof(VersionedTensor) == 80);

inline constexpr uint64_t kReadOnly = 1;

}  // namespace ffdl::python::dlpack
