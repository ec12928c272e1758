#pragma once

#include "ps/rules/device_update.h"
#include "ps/server/update_thread.h"
#include "support/guarded_device.h"

// Runs the kernels of updates on the device of the tests.
namespace ffdl::testing {

template <UpdateRuleKind kKind>
void run_update_threads(const ps::RuleNumbers& numbers, const DeviceUpdate& update,
                        uint64_t threads) {
  for (uint64_t thread = threads; thread-- > 0;) {  // in another order than the elements
    if (update.gradient_type == DType::kBFloat16) {
      ps::update_thread<kKind, base::BFloat16>(numbers, update, thread, threads);
    } else if (update.gradient_type == DType::kFloat16) {
      ps::update_thread<kKind, base::Float16>(numbers, update, thread, threads);
    } else {
      ps::update_thread<kKind, float>(numbers, update, thread, threads);
    }
  }
}

// Runs the kernel of `options.kind` thread by thread.
inline void run_all_threads(const UpdateRuleOptions& options, const UpdateStep& step,
                            const DeviceUpdate& update, uint64_t threads) {
  const ps::RuleNumbers numbers = ps::rule_numbers(options, step);
  const auto with = [&](auto run) { run(numbers, update, threads); };
  switch (options.kind) {
    case UpdateRuleKind::kSgd:
      return with(run_update_threads<UpdateRuleKind::kSgd>);
    case UpdateRuleKind::kMomentum:
      return with(run_update_threads<UpdateRuleKind::kMomentum>);
    case UpdateRuleKind::kAdam:
    case UpdateRuleKind::kAdamW:
      return with(run_update_threads<UpdateRuleKind::kAdam>);
    case UpdateRuleKind::kNesterov:
      return with(run_update_threads<UpdateRuleKind::kNesterov>);
    case UpdateRuleKind::kAdagrad:
      return with(run_update_threads<UpdateRuleKind::kAdagrad>);
    case UpdateRuleKind::kAverage:
      return with(run_update_threads<UpdateRuleKind::kAverage>);
  }
}

// Runs update_on_device() on streams and memory of a HostDevice, even a guarded one.
inline Status update_on_host_device(const UpdateRuleOptions& options, const UpdateStep& step,
                                    const DeviceUpdate& update, void* stream) {
  FFDL_RETURN_IF_ERROR(ps::check_update(options, step, update));
  DeviceUpdate reached = update;
  reached.gradient = GuardedMemory::reach(update.gradient);
  reached.weights = static_cast<float*>(GuardedMemory::reach(update.weights));
  for (float*& state : reached.state) {
    if (state != nullptr) state = static_cast<float*>(GuardedMemory::reach(state));
  }
  constexpr uint64_t kThreads = 7;
  static_cast<ThreadStream*>(stream)->enqueue(
      [=] { run_all_threads(options, step, reached, kThreads); });
  return {};
}

}  // namespace ffdl::testing
