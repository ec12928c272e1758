#include "comm/reduce/device_reduce.h"

#include "base/element_pack.h"
#include "base/errors.h"

namespace ffdl::comm {
namespace {

Status check_place(const char* name, const void* array) {
  const auto beyond = reinterpret_cast<uintptr_t>(array) % base::kDeviceAlignment;
  if (array != nullptr && beyond == 0) return {};
  return base::invalid_argument(
      "reduce on the device: an {} is at address {}; give the GPU's memory at a multiple of {} "
      "bytes",
      name, array, base::kDeviceAlignment);
}

}  // namespace

Status check_reduce(ReduceOp op, DType type, std::span<const void* const> inputs, const void* out,
                    uint64_t count) {
  if (inputs.empty() || inputs.size() > kDeviceInputsMax) {
    return base::invalid_argument("reduce on the device: {} inputs; give 1 to {}", inputs.size(),
                                  kDeviceInputsMax);
  }
  if (element_bytes(type) == 0 || static_cast<uint32_t>(op) > uint32_t{4}) {
    return base::invalid_argument(
        "reduce on the device: operation {} of dtype {} is unknown; use a ReduceOp and a DType",
        static_cast<uint32_t>(op), static_cast<uint32_t>(type));
  }
  const bool is_integer = type == DType::kInt8 || type == DType::kInt16 || type == DType::kInt32 ||
                          type == DType::kInt64;
  if (op == ReduceOp::kMean && is_integer) {
    return base::invalid_argument("reduce on the device: the mean of {}; sum it up and divide",
                                  to_string(type));
  }
  if (count == 0) return {};
  for (const void* const input : inputs) FFDL_RETURN_IF_ERROR(check_place("input", input));
  return check_place("output", out);
}

}  // namespace ffdl::comm
