# cuBLAS's header: CUBLAS_INCLUDE_DIR. As FindCUDNN.cmake: searched in the folder CUBLAS_ROOT, the toolkit, the system,
# or the packages nvidia-cublas (CUDA 13) and nvidia-cublas-cu12 of a Python environment.
file(GLOB ffdl_cublas_packages
  "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13"
  "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cublas"
  "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu13"
  "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cublas"
  "$ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cu13"
  "$ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cublas")
find_path(CUBLAS_INCLUDE_DIR cublas_v2.h HINTS "${CUBLAS_ROOT}" "$ENV{CUBLAS_ROOT}"
  PATHS ${CUDAToolkit_INCLUDE_DIRS} ${ffdl_cublas_packages} PATH_SUFFIXES include)
mark_as_advanced(CUBLAS_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUBLAS REQUIRED_VARS CUBLAS_INCLUDE_DIR)
