#include "elastic/step/scale.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/half_kernels.h"

namespace ffdl::elastic {
namespace {

// Scales elements at any address, since gradients may be cut anywhere out of a flat buffer.
template <class T>
void scale_elements(void* data, uint64_t count, double factor) {
  auto* bytes = static_cast<std::byte*>(data);
  const T by = static_cast<T>(factor);
  for (uint64_t i = 0; i < count; ++i, bytes += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    value *= by;
    std::memcpy(bytes, &value, sizeof(T));
  }
}

void scale_halves(const Buffer& buffer, double factor) {
  std::array<uint16_t, 1024> narrow;
  std::array<float, 1024> wide;
  auto* bytes = static_cast<std::byte*>(buffer.data);
  for (uint64_t left = buffer.count; left > 0;) {
    const uint64_t count = std::min<uint64_t>(wide.size(), left);
    std::memcpy(narrow.data(), bytes, count * 2);
    base::widen(buffer.dtype, narrow.data(), wide.data(), count);
    scale_elements<float>(wide.data(), count, factor);
    base::narrow(buffer.dtype, wide.data(), narrow.data(), count);
    std::memcpy(bytes, narrow.data(), count * 2);
    bytes += count * 2;
    left -= count;
  }
}

void scale_one(const Buffer& buffer, double factor) {
  if (factor == 0) {
    std::memset(buffer.data, 0, buffer.count * element_bytes(buffer.dtype));
  } else if (buffer.dtype == DType::kFloat32) {
    scale_elements<float>(buffer.data, buffer.count, factor);
  } else if (buffer.dtype == DType::kFloat64) {
    scale_elements<double>(buffer.data, buffer.count, factor);
  } else {
    scale_halves(buffer, factor);
  }
}

}  // namespace

void scale(std::span<const Buffer> buffers, double factor) {
  for (const Buffer& buffer : buffers) {
    if (buffer.count > 0) scale_one(buffer, factor);
  }
}

Status scale(const base::Gpu& gpu, std::span<const Buffer> buffers, double factor) {
  if (!gpu) {
    scale(buffers, factor);
    return {};
  }
  for (const Buffer& buffer : buffers) {
    FFDL_RETURN_IF_ERROR(gpu.run(base::ScaleArray{buffer, factor}));
  }
  return {};
}

}  // namespace ffdl::elastic
