# cmake -DBUILD=... -DSOURCE=... -DSCRATCH=... -DBUILD_TYPE=... -DCOMPILER=... -DLAUNCHER=... -P libtorch_test.cmake
# Builds examples/libtorch with what is installed of ffdl and with the libtorch of the checkout's PyTorch, and runs it: by itself,
# and as two workers of a job.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(python "${SOURCE}/.venv/bin/python")
execute_process(COMMAND "${python}" -c "import torch; print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message("skipped: there is no PyTorch in .venv; FFDL_TORCH=ON ./dev setup installs it")
  return()
endif()
file(REMOVE_RECURSE "${SCRATCH}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${SCRATCH}/prefix" --component ffdl)
run(${CMAKE_COMMAND} -S "${SOURCE}/examples/libtorch" -B "${SCRATCH}/build" -G Ninja "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" "-DTorch_ROOT=${torch}/Torch")
run(${CMAKE_COMMAND} --build "${SCRATCH}/build")
set(program "${SCRATCH}/build/elastic_libtorch")
execute_process(COMMAND "${program}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed MATCHES "1 to 2 to 1 workers: more than 95 % of the points are on their spiral\n$")
  message(FATAL_ERROR "the program by itself printed '${printed}'")
endif()
execute_process(COMMAND "${SCRATCH}/prefix/bin/ffdl" run --workers 2 --job "spirals-libtorch" --again "${program}"
  OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
foreach(worker worker-0 worker-1)
  if(NOT printed MATCHES "${worker}: (9[5-9]|100) % after 1200 steps, 2 workers at most")
    message(FATAL_ERROR "the program as two workers printed '${printed}'")
  endif()
endforeach()
