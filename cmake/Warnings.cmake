# Our warnings, on our own targets only, never on those of our users.
function(ffdl_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                                           -Wold-style-cast -Wcast-align)
  if(FFDL_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Its -Wconversion includes signs, unlike GCC's. And std::stable_sort of GCC 12's library calls
    # functions that the library marks as deprecated.
    target_compile_options(${target} PRIVATE -Wthread-safety -Wno-sign-conversion -Wno-deprecated-declarations)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Reports overlapping copies in an optimised "text" + std::string (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
endfunction()
