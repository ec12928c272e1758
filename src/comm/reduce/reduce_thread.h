#pragma once

#include "base/element_pack.h"
#include "comm/reduce/device_reduce.h"
#include "comm/reduce/reduce_arithmetic.h"

namespace ffdl::comm {

// The arrays of one reduction, as passed to a kernel.
struct DeviceReduce {
  const void* inputs[kDeviceInputsMax] = {};
  uint32_t input_count = 0;
  bool is_mean = false;
  void* out = nullptr;
  uint64_t count = 0;
};

// Does the part of thread `thread` of `threads` in a reduction of elements of type T. The kernel
// does nothing else.
template <class Op, class T>
FFDL_HOST_DEVICE void reduce_thread(const DeviceReduce& reduce, uint64_t thread, uint64_t threads) {
  using Wide = Accumulator<T>;
  const uint32_t inputs = reduce.input_count;
  auto* const out = static_cast<T*>(reduce.out);
  const auto reduced = [&](const Wide* values) {
    const Wide root = node_of<Op, 0, kDeviceInputsMax>(values, inputs);
    if constexpr (!std::is_integral_v<T>) {
      if (reduce.is_mean) return element_of<T>(root / static_cast<Wide>(inputs));
    }
    return element_of<T>(root);
  };
  const uint64_t packs = reduce.count / base::kPackElements;
  for (uint64_t pack = thread; pack < packs; pack += threads) {
    const uint64_t first = pack * base::kPackElements;
    base::ElementPack<T> loaded[kDeviceInputsMax] = {};
    FFDL_UNROLL
    for (uint32_t n = 0; n < kDeviceInputsMax; ++n) {
      if (n < inputs) {
        loaded[n] = base::load_pack(static_cast<const T*>(reduce.inputs[n]) + first);
      }
    }
    base::ElementPack<T> results;
    FFDL_UNROLL
    for (uint64_t i = 0; i < base::kPackElements; ++i) {
      Wide values[kDeviceInputsMax];
      FFDL_UNROLL
      for (uint32_t n = 0; n < kDeviceInputsMax; ++n) values[n] = accumulated(loaded[n].at[i]);
      results.at[i] = reduced(values);
    }
    base::store_pack(results, out + first);
  }
  for (uint64_t i = packs * base::kPackElements + thread; i < reduce.count; i += threads) {
    Wide values[kDeviceInputsMax] = {};
    FFDL_UNROLL
    for (uint32_t n = 0; n < kDeviceInputsMax; ++n) {
      if (n < inputs) values[n] = accumulated(static_cast<const T*>(reduce.inputs[n])[i]);
    }
    out[i] = reduced(values);
  }
}

}  // namespace ffdl::comm
