// A buffer of gloo's counts who uses it, and its destructor waits until nobody does. gloo is not
// compiled for ThreadSanitizer, which so takes the end of a buffer for a race with its last user.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
         "race:std::default_delete<gloo::transport::UnboundBuffer>\n";
}
