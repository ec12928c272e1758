#pragma once

#include "base/element_pack.h"
#include "base/half_arithmetic.h"
#include "ps/rules/device_update.h"
#include "ps/rules/rule_arithmetic.h"

namespace ffdl::ps {

// Computes the part of thread `thread` of `threads` in an update with gradients of type Gradient.
// The kernel consists of this function.
template <UpdateRuleKind kKind, class Gradient>
FFDL_HOST_DEVICE void update_thread(const RuleNumbers& numbers, const DeviceUpdate& update,
                                    uint64_t thread, uint64_t threads) {
  constexpr int kState = state_count(kKind);
  const auto* const gradient = static_cast<const Gradient*>(update.gradient);
  const uint64_t packs = update.count / base::kPackElements;
  for (uint64_t pack = thread; pack < packs; pack += threads) {
    const uint64_t first = pack * base::kPackElements;
    const auto gradients = base::load_pack(gradient + first);
    auto weights = base::load_pack(update.weights + first);
    base::ElementPack<float> states[kState + 1];  // the last one is not used
    FFDL_UNROLL
    for (int s = 0; s < kState; ++s) states[s] = base::load_pack(update.state[s] + first);
    FFDL_UNROLL
    for (uint64_t i = 0; i < base::kPackElements; ++i) {
      float state[kState + 1];
      for (int s = 0; s < kState; ++s) state[s] = states[s].at[i];
      weights.at[i] = updated<kKind>(numbers, base::widened(gradients.at[i]), weights.at[i], state);
      for (int s = 0; s < kState; ++s) states[s].at[i] = state[s];
    }
    base::store_pack(weights, update.weights + first);
    FFDL_UNROLL
    for (int s = 0; s < kState; ++s) base::store_pack(states[s], update.state[s] + first);
  }
  for (uint64_t i = packs * base::kPackElements + thread; i < update.count; i += threads) {
    float state[kState + 1];
    for (int s = 0; s < kState; ++s) state[s] = update.state[s][i];
    update.weights[i] =
        updated<kKind>(numbers, base::widened(gradient[i]), update.weights[i], state);
    for (int s = 0; s < kState; ++s) update.state[s][i] = state[s];
  }
}

}  // namespace ffdl::ps
