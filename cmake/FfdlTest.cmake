include(GoogleTest)

# Some builds run only some of the tests, and build no others.
add_custom_target(tests-concurrency)
add_custom_target(tests-kernels)

# ffdl_test(name LABELS unit|concurrency|kernels|... SOURCES a.cc b.cc [TIMEOUT s]): one GoogleTest program, one ctest entry.
function(ffdl_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ffdl_internal GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  ffdl_warnings(${name})
  add_test(NAME ${name} COMMAND ${name})
  foreach(label concurrency kernels)
    if(label IN_LIST arg_LABELS)
      add_dependencies(tests-${label} ${name})
    endif()
  endforeach()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
