#include "base/element_pack.h"
#include "cuda/failure.h"
#include "cuda/launch.h"
#include "ps/rules/device_update.h"
#include "ps/server/update_thread.h"

// Implements update_on_device() of include/ffdl/ps/update_rule.h on the device. The work of a
// thread is in src/ps/server/update_thread.h, where it is tested without a GPU.
namespace ffdl::ps {
namespace {

constexpr std::string_view kDoing = "update on the device";

template <UpdateRuleKind kKind, class Gradient>
__global__ void update_kernel(const RuleNumbers numbers, const DeviceUpdate update) {
  update_thread<kKind, Gradient>(numbers, update, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                                 uint64_t{gridDim.x} * blockDim.x);
}

template <UpdateRuleKind kKind>
cudaError_t launch(const RuleNumbers& numbers, const DeviceUpdate& update,
                   const base::LaunchShape& shape, cudaStream_t stream) {
  const auto with = [&](void (*kernel)(RuleNumbers, DeviceUpdate)) {
    return cuda::launch(kernel, shape, stream, numbers, update);
  };
  if (update.gradient_type == DType::kBFloat16) return with(update_kernel<kKind, base::BFloat16>);
  if (update.gradient_type == DType::kFloat16) return with(update_kernel<kKind, base::Float16>);
  return with(update_kernel<kKind, float>);
}

Status start_update(const UpdateRuleOptions& options, const UpdateStep& step,
                    const DeviceUpdate& update, cudaStream_t stream) {
  FFDL_ASSIGN_OR_RETURN(const uint32_t multiprocessors, cuda::multiprocessor_count(kDoing));
  const base::LaunchShape shape = base::launch_shape(update.count, multiprocessors);
  const RuleNumbers numbers = rule_numbers(options, step);
  const auto with = [&](auto launch_rule) {
    return cuda::status_of(launch_rule(numbers, update, shape, stream), kDoing);
  };
  switch (options.kind) {
    case UpdateRuleKind::kSgd:
      return with(launch<UpdateRuleKind::kSgd>);
    case UpdateRuleKind::kMomentum:
      return with(launch<UpdateRuleKind::kMomentum>);
    case UpdateRuleKind::kAdam:
    case UpdateRuleKind::kAdamW:  // the two differ in their numbers
      return with(launch<UpdateRuleKind::kAdam>);
    case UpdateRuleKind::kNesterov:
      return with(launch<UpdateRuleKind::kNesterov>);
    case UpdateRuleKind::kAdagrad:
      return with(launch<UpdateRuleKind::kAdagrad>);
    case UpdateRuleKind::kAverage:
      return with(launch<UpdateRuleKind::kAverage>);
  }
  return {};
}

}  // namespace
}  // namespace ffdl::ps

namespace ffdl {

Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                        const DeviceUpdate& update, void* stream) {
  FFDL_RETURN_IF_ERROR(ps::check_update(options, step, update));
  if (update.count == 0) return {};
  return ps::start_update(options, step, update, static_cast<cudaStream_t>(stream));
}

}  // namespace ffdl
