#pragma once

#include <cstddef>
#include <cstdint>

// The parts of cuBLAS (12 and 13) and cuDNN (9) that the classifier calls, as in their
// documentation and headers. They are declared here, so that any build can load the libraries. If
// their headers are found, a test compares the two. https://docs.nvidia.com/cuda/cublas and
// https://docs.nvidia.com/deeplearning/cudnn
namespace nlc::cublas {

using Handle = struct HandleOfCublas*;

enum class Code : int32_t { kSuccess = 0 };
enum class Operation : int32_t { kAsItIs = 0, kTransposed = 1 };
enum class Property : int32_t { kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2 };

struct Functions {
  Code (*get_property)(Property property, int* value);
  const char* (*get_status_string)(Code code);
  Code (*create)(Handle* handle);
  Code (*destroy)(Handle handle);
  Code (*set_stream)(Handle handle, void* stream);
  // Computes c = alpha * a * b + beta * c, all column-major: m x n, with k columns of a.
  Code (*sgemm)(Handle handle, Operation of_a, Operation of_b, int m, int n, int k,
                const float* alpha, const float* a, int a_leading, const float* b, int b_leading,
                const float* beta, float* c, int c_leading);
};

}  // namespace nlc::cublas

namespace nlc::cudnn {

using Handle = struct HandleOfCudnn*;
using Tensor = struct TensorOfCudnn*;

enum class Code : int32_t { kSuccess = 0 };
enum class Format : int32_t { kNchw = 0 };
enum class DataType : int32_t { kFloat = 0 };
enum class SoftmaxAlgorithm : int32_t { kLog = 2 };
enum class SoftmaxMode : int32_t { kInstance = 0 };

struct Functions {
  size_t (*get_version)();
  const char* (*get_error_string)(Code code);
  Code (*create)(Handle* handle);
  Code (*destroy)(Handle handle);
  Code (*set_stream)(Handle handle, void* stream);
  Code (*create_tensor)(Tensor* tensor);
  Code (*destroy_tensor)(Tensor tensor);
  Code (*set_tensor)(Tensor tensor, Format format, DataType type, int n, int c, int h, int w);
  // Computes out = alpha * log(softmax(in)) + beta * out, over the values of each of the n.
  Code (*softmax_forward)(Handle handle, SoftmaxAlgorithm algorithm, SoftmaxMode mode,
                          const void* alpha, Tensor in_tensor, const void* in, const void* beta,
                          Tensor out_tensor, void* out);
  // Computes the gradient at its input, from its output and the gradient there.
  Code (*softmax_backward)(Handle handle, SoftmaxAlgorithm algorithm, SoftmaxMode mode,
                           const void* alpha, Tensor out_tensor, const void* out,
                           Tensor out_gradient_tensor, const void* out_gradient, const void* beta,
                           Tensor in_gradient_tensor, void* in_gradient);
};

}  // namespace nlc::cudnn
