# cmake -DMODE=find_package|add_subdirectory -DBUILD=... -DSOURCE=... -DSCRATCH=... -P install_test.cmake
# Builds the C++ program of docs/guide/cpp.md as a user would, and runs it.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
file(READ "${SOURCE}/docs/guide/cpp.md" program)
string(REGEX REPLACE ".*<!-- tests/install builds and runs this program. -->\n```cpp\n" "" program "${program}")
string(REGEX REPLACE "\n```.*" "\n" program "${program}")
file(WRITE "${SCRATCH}/program.cc" "${program}")
set(options -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DPROGRAM=${SCRATCH}/program.cc"
            "-DCMAKE_UNITY_BUILD=${UNITY}")
if(MODE STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${SCRATCH}/prefix" --component ffdl)
  list(APPEND options "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")
else()
  # A shared library here, as the other way is static: both are tried, and hidden names are missed. Without optimisation, which
  # is what a Debug build of a user has and compiles in two thirds of the time.
  list(APPEND options "-DFFDL_SOURCE_DIR=${SOURCE}" -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=)
endif()
run(${CMAKE_COMMAND} -S "${SOURCE}/tests/install/consumer" -B "${SCRATCH}/build" ${options})
run(${CMAKE_COMMAND} --build "${SCRATCH}/build" --target consumer)
function(expect_to_print program)
  execute_process(COMMAND "${program}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed STREQUAL "the first weight is 3\n")
    message(FATAL_ERROR "the program of docs/guide/cpp.md printed '${printed}'")
  endif()
endfunction()
expect_to_print("${SCRATCH}/build/consumer")

# The same without CMake.
find_program(PKG_CONFIG pkg-config)
if(MODE STREQUAL "find_package" AND PKG_CONFIG)
  file(GLOB_RECURSE file "${SCRATCH}/prefix/*/ffdl.pc")
  cmake_path(GET file PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} "${folder}")
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs ffdl OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${LAUNCHER} "${COMPILER}" "${SCRATCH}/program.cc" -o "${SCRATCH}/by_pkg_config" ${flags})
  expect_to_print("${SCRATCH}/by_pkg_config")
endif()
