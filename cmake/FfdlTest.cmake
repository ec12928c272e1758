include(GoogleTest)

# Some builds run only some of the tests, and build no others.
add_custom_target(tests-concurrency)

# tests/support/programs.h. ffdl_uses(test target...): those must be built before the test, which starts or loads them.
set(definitions "")
foreach(program FfdlProgram:ffdl_cli MemberWorker:member_worker RoleWorker:role_worker SampleWorker:sample_worker
                SteeredWorker:steered_worker DigitsProgram:digits NlcProgram:nlc FakeNccl:fake_nccl FakeNcclWithoutGrow:fake_nccl_without_grow
                FakeNcclOld:fake_nccl_old FakeNcclBroken:fake_nccl_broken FakeCudnn:fake_cudnn FakeCudnnOld:fake_cudnn_old)
  string(REPLACE ":" ";" program "${program}")
  list(GET program 0 constant)
  list(GET program 1 target)
  string(APPEND definitions
    "const char* const k${constant} = \"$<$<TARGET_EXISTS:${target}>:$<TARGET_FILE:${target}>>\";\n")
endforeach()
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tests/programs.cc" CONTENT
  "#include \"support/programs.h\"\n\nnamespace ffdl {\n\n${definitions}\n}  // namespace ffdl\n")
add_library(ffdl_test_programs STATIC "${PROJECT_BINARY_DIR}/tests/programs.cc")
target_include_directories(ffdl_test_programs PRIVATE "${PROJECT_SOURCE_DIR}/tests")
function(ffdl_uses test)
  target_link_libraries(${test} PRIVATE ffdl_test_programs)
  add_dependencies(${test} ${ARGN})
endfunction()

# ffdl_test(name LABELS unit|concurrency|kernels|... SOURCES a.cc b.cc [TIMEOUT s] [WAITS] [HALVES]): one GoogleTest
# program, one ctest entry. With HALVES it has two entries, NAME and NAME_2, each with half of its tests. ctest counts
# thirds of a core; two cores have six. A test takes two, or one if it mostly WAITS. The label full is for tests that
# only ./dev test --full runs, timing for those that compare times: they run alone, at the end, and may be tried again.
# What must be exact is never tried again.
function(ffdl_test name)
  cmake_parse_arguments(arg "WAITS;HALVES" "TIMEOUT" "LABELS;SOURCES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O0)  # half of the build time; the code of tests is not the slow part
  endif()
  if(FFDL_SANITIZE MATCHES "undefined")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)  # a quarter of it, likewise; the library keeps it
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 40)  # headers take longer to compile than tests
  if(FFDL_SANITIZE MATCHES "thread")
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/gloo_under_tsan.cc")
  endif()
  if("kernels" IN_LIST arg_LABELS)
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/chosen_kernels.cc")
    target_include_directories(${name} PRIVATE "${FFDL_HWY_INCLUDE}")
  endif()
  target_link_libraries(${name} PRIVATE ffdl_internal GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  ffdl_warnings(${name})
  add_test(NAME ${name} COMMAND ${name})
  set(tests ${name})
  if(arg_HALVES)
    add_test(NAME ${name}_2 COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=0")
    set_tests_properties(${name}_2 PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=1")
    list(APPEND tests ${name}_2)
  endif()
  if("concurrency" IN_LIST arg_LABELS)
    add_dependencies(tests-concurrency ${name})
  endif()
  # A bound for hangs, which is five times what a test takes on a busy machine.
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS 2)
  if(arg_WAITS)
    set_tests_properties(${tests} PROPERTIES PROCESSORS 1 COST 50)  # a higher cost starts earlier
  endif()
endfunction()

# ffdl_timing_test(name PROGRAM filter): those tests of the program, with their bounds of time (tests/support/slowness.h).
function(ffdl_timing_test name program filter)
  add_test(NAME ${name} COMMAND ${program} "--gtest_filter=${filter}")
  set_tests_properties(${name} PROPERTIES LABELS timing TIMEOUT 300 RUN_SERIAL TRUE ENVIRONMENT FFDL_TEST_TIMES=1)
endfunction()

# To be called at the end of a folder: under a sanitizer its tests have more time.
function(ffdl_stretch_timeouts)
  set(factor 3)
  if(FFDL_SANITIZE MATCHES "thread")
    set(factor 5)
  elseif(NOT FFDL_SANITIZE)
    return()
  endif()
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_property(timeout TEST ${test} PROPERTY TIMEOUT)
    if(timeout)
      math(EXPR timeout "${factor} * ${timeout}")
      set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout})
    endif()
  endforeach()
endfunction()
