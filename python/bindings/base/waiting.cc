#include "bindings/base/waiting.h"

#include <cmath>
#include <string>

namespace ffdl::python {

Time deadline_after(double timeout_s) {
  if (std::isnan(timeout_s) || timeout_s < 0) {
    raise_invalid_argument("wait 'timeout_s': " + std::to_string(timeout_s) +
                           " s; give seconds >= 0, or float('inf')");
  }
  // Longer than any run, and far from where nanoseconds overflow.
  constexpr double kForever = 1e9;
  if (timeout_s > kForever) return kNoDeadline;
  const std::chrono::duration<double> seconds(timeout_s);
  return deadline_in(std::chrono::duration_cast<Duration>(seconds));
}

Exclusive::Exclusive(bool& busy) : busy_(busy) {
  if (busy) {
    raise_invalid_argument(
        "call: another thread is inside a call of the same object, or an OperationQueue uses the "
        "object; create one object for each thread");
  }
  busy = true;
}

}  // namespace ffdl::python
