# The compiler cache and the fast linker are used if installed, since two cores are few.
if(PROJECT_IS_TOP_LEVEL)
  find_program(FFDL_CCACHE ccache)
  if(FFDL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${FFDL_CCACHE}")
  endif()
  find_program(FFDL_MOLD mold)
  if(FFDL_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

# Position independent rounding: no multiply-add unless a kernel asks for one (docs/decisions/0003-rounding.md).
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>")

if(FFDL_SANITIZE)
  add_compile_options(-fsanitize=${FFDL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FFDL_SANITIZE})
endif()
