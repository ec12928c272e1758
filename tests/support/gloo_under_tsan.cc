#include "ffdl/export.h"

// A buffer of gloo's counts its users, and its destructor waits until there are none. gloo is not
// compiled for ThreadSanitizer, which therefore reports a race between the end of a buffer and its
// last user. The run-time library finds the function only if it is visible from outside.
extern "C" FFDL_API const char* __tsan_default_suppressions();
extern "C" FFDL_API const char* __tsan_default_suppressions() {
  return "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
         "race:std::default_delete<gloo::transport::UnboundBuffer>\n";
}
