#pragma once

// Sanitizers change the view of a test on its own process. Each use explains how.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FFDL_IS_SANITIZED 1
#else
#define FFDL_IS_SANITIZED 0
#endif

// UndefinedBehaviorSanitizer tests by a pipe whether memory is readable. Without a free descriptor
// it takes each object for an invalid one. It runs together with AddressSanitizer.
#define FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN()                                       \
  if (FFDL_IS_SANITIZED) {                                                              \
    GTEST_SKIP() << "a sanitizer needs descriptors itself, of which this test has few"; \
  }
