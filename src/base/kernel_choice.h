#pragma once

#include <hwy/targets.h>

#include <cstdint>

// Chooses the form of a kernel for this processor. Highway compiles the forms
// (hwy/foreach_target.h). Highway's own choice is in its shared library, which measures the
// processor's timer when loaded. That takes longer than the rest of a small program's start.
namespace ffdl::base {

// Returns the forms that this processor can run, as Highway's bits. 0: only the baseline form.
int64_t runnable_kernels();

// Returns the best of these forms. A test may choose others before the first kernel runs.
hwy::ChosenTarget& chosen_kernels();

}  // namespace ffdl::base

// Write FFDL_KERNEL(Sum); once beside the functions of that name, then
// FFDL_BEST_KERNEL(Sum)(arguments).
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define FFDL_KERNEL(name) static_assert(true)
#define FFDL_BEST_KERNEL(name) HWY_STATIC_DISPATCH(name)
#else
#define FFDL_KERNEL(name)                                             \
  static decltype(&HWY_STATIC_DISPATCH(name)) const name##Forms[] = { \
      &HWY_STATIC_DISPATCH(name), HWY_CHOOSE_TARGET_LIST(name), HWY_CHOOSE_FALLBACK(name)}
#define FFDL_BEST_KERNEL(name) (*name##Forms[::ffdl::base::chosen_kernels().GetIndex()])
#endif
