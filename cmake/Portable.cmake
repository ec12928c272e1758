# FFDL_PORTABLE: a folder that runs on machines which have a driver, CUDA's libraries and no packages of ours, such as
# a rented one with a GPU: cmake --install BUILD --component portable --prefix FOLDER. What Debian has as an archive is
# linked in; the rest travels in lib/.
option(FFDL_PORTABLE "Install a folder that needs nothing but glibc (component 'portable')" OFF)
if(NOT FFDL_PORTABLE)
  return()
endif()
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
# Also for the libraries that those in lib/ need.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-static-libstdc++ -static-libgcc LINKER:--disable-new-dtags)

# ffdl_portable(targets ...): these programs, and the libraries beside them.
function(ffdl_portable)
  install(TARGETS ${ARGN} RUNTIME_DEPENDENCY_SET ffdl_portable RUNTIME DESTINATION bin COMPONENT portable)
  # What has to be that of the machine: glibc's own, and the driver's.
  install(RUNTIME_DEPENDENCY_SET ffdl_portable
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|cuda)[.]so"
    LIBRARY DESTINATION lib COMPONENT portable)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/check_gpu.sh" DESTINATION . RENAME check-gpu COMPONENT portable)
  install(FILES "${PROJECT_SOURCE_DIR}/benchmarks/publish.py" "${PROJECT_SOURCE_DIR}/benchmarks/gpt2_stops.py"
    DESTINATION benchmarks COMPONENT portable)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/python" DESTINATION tests COMPONENT portable
    FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  install(FILES "${PROJECT_SOURCE_DIR}/examples/nlc/gpu_table.py" DESTINATION examples/nlc COMPONENT portable)
endfunction()
