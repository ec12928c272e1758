#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/kernel_choice.h"

// FFDL_TEST_KERNELS=AVX2: the kernels run as a processor would run them that has no more than that.
// `list` prints what there is to choose from here, in Highway's words. What the processor has is
// asked for at the first call of a kernel, which is after this.
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
