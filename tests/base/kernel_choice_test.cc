#include "base/kernel_choice.h"

#include <gtest/gtest.h>

namespace ffdl::base {
namespace {

TEST(KernelChoice, IsHighwaysOnX86) {
#if HWY_ARCH_X86
  EXPECT_EQ(runnable_kernels(), hwy::SupportedTargets() & HWY_TARGETS & ~(HWY_EMU128 | HWY_SCALAR));
#else
  EXPECT_EQ(runnable_kernels(), 0);
#endif
}

}  // namespace
}  // namespace ffdl::base
