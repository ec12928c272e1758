# cuDNN's header: CUDNN_INCLUDE_DIR and CUDNN_VERSION. examples/nlc is built without it and loads the library at first
# use (examples/nlc/device/libraries.h); a test compares the two. Searched in the folder CUDNN_ROOT (a variable, or of
# the environment), the system, or the package nvidia-cudnn of this checkout's or the active Python environment.
file(GLOB ffdl_cudnn_packages
  "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cudnn"
  "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cudnn"
  "$ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cudnn")
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS "${CUDNN_ROOT}" "$ENV{CUDNN_ROOT}" PATHS ${ffdl_cudnn_packages} PATH_SUFFIXES include)
mark_as_advanced(CUDNN_INCLUDE_DIR)
set(CUDNN_VERSION "")
if(CUDNN_INCLUDE_DIR)
  file(STRINGS "${CUDNN_INCLUDE_DIR}/cudnn_version.h" ffdl_cudnn_numbers
    REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" ffdl_cudnn_numbers "${ffdl_cudnn_numbers}")
  list(JOIN ffdl_cudnn_numbers "." CUDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
