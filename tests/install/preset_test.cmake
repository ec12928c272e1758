# cmake -DSOURCE=... -DSCRATCH=... -DCOMPILER=... -P preset_test.cmake
# Configures the preset 'install', on a machine without libarchive.
execute_process(COMMAND "${CMAKE_COMMAND}" --preset install --fresh -S "${SOURCE}" -B "${SCRATCH}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_DISABLE_FIND_PACKAGE_LibArchive=ON
  WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
set(wanted "ffdl: without archives (Debian: libarchive-dev zlib1g-dev): data files that are compressed cannot be read")
string(FIND "${printed}" "${wanted}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the configure step does not say '${wanted}', but:\n${printed}")
endif()
foreach(folder tests examples benchmarks)
  if(EXISTS "${SCRATCH}/${folder}")
    message(FATAL_ERROR "the preset 'install' builds ${folder}")
  endif()
endforeach()
file(STRINGS "${SCRATCH}/build.ninja" errors REGEX "FLAGS = .*-Werror")
if(errors)
  message(FATAL_ERROR "warnings are errors in a user's build: ${errors}")
endif()
file(STRINGS "${SCRATCH}/include/ffdl/version.h" built_with REGEX "FFDL_BUILT_WITH.*without archives")
if(NOT built_with)
  message(FATAL_ERROR "'ffdl --version' does not say that archives are missing")
endif()
