#pragma once

#include <hwy/targets.h>

#include <cstdint>

// Which form of a kernel runs on this processor. Highway compiles the forms (hwy/foreach_target.h),
// and has this choice in its shared library; that one measures the processor's timer whenever it is
// loaded, which takes longer than the rest of a small program's start.
namespace ffdl::base {

// The forms that this processor can run, as bits of Highway's. 0: the one that all of its kind can.
int64_t runnable_kernels();

// The best of them, unless a test chooses others, which it does before the first kernel runs.
hwy::ChosenTarget& chosen_kernels();

}  // namespace ffdl::base

// FFDL_KERNEL(Sum); once beside the functions of that name, then FFDL_BEST_KERNEL(Sum)(arguments).
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define FFDL_KERNEL(name) static_assert(true)
#define FFDL_BEST_KERNEL(name) HWY_STATIC_DISPATCH(name)
#else
#define FFDL_KERNEL(name)                                             \
  static decltype(&HWY_STATIC_DISPATCH(name)) const name##Forms[] = { \
      &HWY_STATIC_DISPATCH(name), HWY_CHOOSE_TARGET_LIST(name), HWY_CHOOSE_FALLBACK(name)}
#define FFDL_BEST_KERNEL(name) (*name##Forms[::ffdl::base::chosen_kernels().GetIndex()])
#endif
