#pragma once

// Marks a function that a GPU runs too. nvcc compiles it for both sides, other compilers for the
// host. So the arithmetic of a kernel is tested on machines without a GPU.
#ifdef __CUDACC__
#define FFDL_HOST_DEVICE __host__ __device__
#define FFDL_UNROLL _Pragma("unroll")
#else
#define FFDL_HOST_DEVICE
#define FFDL_UNROLL
#endif
