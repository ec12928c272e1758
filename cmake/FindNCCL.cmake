# NCCL's header: NCCL_INCLUDE_DIR and NCCL_VERSION. ffdl is built without it and loads the library at first use
# (src/comm/gpu/nccl/library.h); a test compares the two. Searched in the folder NCCL_ROOT (a variable, or of the
# environment), the system, or the package nvidia-nccl of this checkout's or the active Python environment.
file(GLOB ffdl_nccl_packages
  "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nccl"
  "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/nccl"
  "$ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/nccl")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_ROOT}" "$ENV{NCCL_ROOT}" PATHS ${ffdl_nccl_packages} PATH_SUFFIXES include)
mark_as_advanced(NCCL_INCLUDE_DIR)
set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" ffdl_nccl_numbers REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" ffdl_nccl_numbers "${ffdl_nccl_numbers}")
  list(JOIN ffdl_nccl_numbers "." NCCL_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
