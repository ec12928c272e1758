#include "ffdl/export.h"

// A buffer of gloo's counts who uses it, and its destructor waits until nobody does. gloo is not
// compiled for ThreadSanitizer, which so takes the end of a buffer for a race with its last user.
// The run-time library finds the function only where it can be seen from outside.
extern "C" FFDL_API const char* __tsan_default_suppressions();
extern "C" FFDL_API const char* __tsan_default_suppressions() {
  return "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
         "race:std::default_delete<gloo::transport::UnboundBuffer>\n";
}
