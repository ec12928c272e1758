#include "ps/rules/device_update.h"

#include "base/element_pack.h"
#include "base/errors.h"
#include "ps/rules/rule_arithmetic.h"

namespace ffdl::ps {
namespace {

Status check_array(const char* name, const void* array) {
  if (array == nullptr) {
    return base::invalid_argument(
        "update on the device: '{}' is null; give an array in the GPU's memory", name);
  }
  const auto beyond = reinterpret_cast<uintptr_t>(array) % base::kDeviceAlignment;
  if (beyond == 0) return {};
  return base::invalid_argument(
      "update on the device: '{}' begins {} bytes after a multiple of {}; align it to one", name,
      beyond, base::kDeviceAlignment);
}

}  // namespace

Status check_update(const UpdateRuleOptions& options, const UpdateStep& step,
                    const DeviceUpdate& update) {
  if (to_string(options.kind) == "unknown") {
    return base::invalid_argument("update on the device: rule {} is unknown; use an UpdateRuleKind",
                                  static_cast<uint32_t>(options.kind));
  }
  if (step.number == 0) {
    return base::invalid_argument("update on the device: number 0; the first update has 1");
  }
  if (update.gradient_type != DType::kFloat32 && update.gradient_type != DType::kBFloat16 &&
      update.gradient_type != DType::kFloat16) {
    return base::invalid_argument(
        "update on the device: gradients are {}; use float32, bfloat16 or float16",
        to_string(update.gradient_type));
  }
  if (update.count == 0) return {};
  FFDL_RETURN_IF_ERROR(check_array("gradient", update.gradient));
  FFDL_RETURN_IF_ERROR(check_array("weights", update.weights));
  for (int s = 0; s < state_count(options.kind); ++s) {
    FFDL_RETURN_IF_ERROR(check_array("state", update.state[s]));
  }
  return {};
}

}  // namespace ffdl::ps
