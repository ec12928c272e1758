#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/kernel_choice.h"

// FFDL_TEST_KERNELS=AVX2 limits the kernels to the instructions up to AVX2. `list` prints the
// choices of this processor, by Highway's names. The first call of a kernel detects the processor,
// which is after this.
namespace {

bool choose_kernels() {
  const char* wanted = std::getenv("FFDL_TEST_KERNELS");
  if (wanted == nullptr) return false;
  const bool list = std::string_view(wanted) == "list";
  int64_t forms = ffdl::base::runnable_kernels() | (HWY_TARGETS & (HWY_EMU128 | HWY_SCALAR));
  for (; forms != 0; forms &= forms - 1) {
    const int64_t form = forms & ~(forms - 1);
    const char* name = hwy::TargetName(form);
    if (list) std::cout << name << '\n';
    if (std::string_view(wanted) != name) continue;
    ffdl::base::chosen_kernels().Update(form);
    return true;
  }
  if (list) std::exit(0);
  std::cerr << "FFDL_TEST_KERNELS is '" << wanted << "', which is not in its 'list'\n";
  std::exit(1);
}

[[maybe_unused]] const bool kChosen = choose_kernels();

}  // namespace
