#include <hwy/highway.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

// FFDL_TEST_KERNELS=AVX2: the kernels run as a processor would run them that has no more than that.
// `list` prints what there is to choose from here, in Highway's words. Highway asks for what the
// processor has at the first call of a kernel, which is after this.
namespace {

bool choose_kernels() {
  const char* wanted = std::getenv("FFDL_TEST_KERNELS");
  if (wanted == nullptr) return false;
  const bool list = std::string_view(wanted) == "list";
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const char* name = hwy::TargetName(target);
    if (list) std::cout << name << '\n';
    if (std::string_view(wanted) != name) continue;
    // DisableTargets() would be the function for it; in Highway 1.0.3 it has no effect where what
    // remains is SCALAR.
    hwy::SetSupportedTargetsForTest(target);
    return true;
  }
  if (list) std::exit(0);
  std::cerr << "FFDL_TEST_KERNELS is '" << wanted << "', which is not in its 'list'\n";
  std::exit(1);
}

[[maybe_unused]] const bool kChosen = choose_kernels();

}  // namespace
