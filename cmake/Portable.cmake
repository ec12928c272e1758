# FFDL_PORTABLE: a folder that runs on machines with a driver and CUDA's libraries, but without our packages, such as a
# rented one with a GPU: cmake --install BUILD --component portable --prefix FOLDER. Libraries for which Debian has a
# position independent archive are linked in; the rest is in lib/. With FFDL_BUILD_PYTHON the folder has the package,
# too.
option(FFDL_PORTABLE "Install a folder that needs nothing but glibc (component 'portable')" OFF)
if(NOT FFDL_PORTABLE)
  return()
endif()
set(OPENSSL_USE_STATIC_LIBS ON)
# The old tag also applies to the libraries that those in lib/ need.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(LINKER:--disable-new-dtags)
# Each program has all kernels for three chips; compression reduces that to a tenth.
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
# The libraries that must be those of the machine: glibc's own, and the driver's.
set(FFDL_OF_THE_MACHINE "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|cuda)[.]so")

# ffdl_portable(targets ...): these programs, and the libraries beside them.
function(ffdl_portable)
  install(TARGETS ${ARGN} RUNTIME_DEPENDENCY_SET ffdl_portable RUNTIME DESTINATION bin COMPONENT portable)
  install(RUNTIME_DEPENDENCY_SET ffdl_portable PRE_EXCLUDE_REGEXES ${FFDL_OF_THE_MACHINE}
    LIBRARY DESTINATION lib COMPONENT portable)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/check_gpu.sh" DESTINATION . RENAME check-gpu COMPONENT portable)
  install(FILES "${PROJECT_SOURCE_DIR}/benchmarks/publish.py" "${PROJECT_SOURCE_DIR}/benchmarks/gpt2_stops.py"
    DESTINATION benchmarks COMPONENT portable)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/python" DESTINATION tests COMPONENT portable
    FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  install(FILES "${PROJECT_SOURCE_DIR}/examples/nlc/gpu_table.py" "${PROJECT_SOURCE_DIR}/examples/nlc/torch_peer.py" DESTINATION examples/nlc COMPONENT portable)
endfunction()

# The package ffdl in python/, for PYTHONPATH. Its process has one C++ runtime, that of the machine: NumPy and PyTorch
# need it as well, and may need a newer one than ours.
function(ffdl_portable_python)
  set_target_properties(_ffdl PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
  install(TARGETS _ffdl RUNTIME_DEPENDENCY_SET ffdl_portable_python LIBRARY DESTINATION python/ffdl COMPONENT portable)
  install(RUNTIME_DEPENDENCY_SET ffdl_portable_python
    PRE_EXCLUDE_REGEXES ${FFDL_OF_THE_MACHINE} "^lib(stdc[+][+]|gcc_s)[.]so"
    LIBRARY DESTINATION python/ffdl/lib COMPONENT portable)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/ffdl" DESTINATION python COMPONENT portable
    PATTERN "__pycache__" EXCLUDE)
  # python -m ffdl runs it.
  install(CODE [[
    set(program "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/python/ffdl/bin/ffdl")
    cmake_path(GET program PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK ../../../bin/ffdl "${program}" SYMBOLIC)]] COMPONENT portable)
endfunction()
