#include "base/kernel_choice.h"

namespace ffdl::base {

int64_t runnable_kernels() {
  int64_t forms = 0;
#if HWY_ARCH_X86
  // The instruction sets for which Highway compiles each form. Each form includes those of the form
  // before it. The builtin also checks that the system saves the registers.
  const auto next = [&](int64_t form, bool has) {
    if (has) forms |= form;
    return has;
  };
  __builtin_cpu_init();
  static_cast<void>(
      next(HWY_SSSE3, __builtin_cpu_supports("ssse3")) &&
      next(HWY_SSE4, __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                         __builtin_cpu_supports("aes")) &&
      next(HWY_AVX2, __builtin_cpu_supports("x86-64-v3")) &&
      next(HWY_AVX3, __builtin_cpu_supports("x86-64-v4")) &&
      next(HWY_AVX3_DL,
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
               __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
               __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512vpopcntdq") &&
               __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni")));
#endif
  return forms & HWY_TARGETS;
}

hwy::ChosenTarget& chosen_kernels() {
  static hwy::ChosenTarget chosen;
  static const bool is_chosen = [] {
    chosen.Update(runnable_kernels());
    return true;
  }();
  static_cast<void>(is_chosen);
  return chosen;
}

}  // namespace ffdl::base
