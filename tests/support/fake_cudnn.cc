#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "nlc/device/interface.h"
#include "support/host_stream.h"

// A libcublas.so and libcudnn.so in one, for a device in the host's memory. Implements the
// documentation of the functions in double precision and element by element, later and in the order
// of the stream. As in the original, a handle or tensor that does not exist is refused, and so are
// contradictory numbers.
namespace nlc {

namespace cublas {
struct HandleOfCublas {
  void* stream = nullptr;
};
}  // namespace cublas

namespace cudnn {
struct HandleOfCudnn {
  void* stream = nullptr;
};
struct TensorOfCudnn {
  int n = 0, c = 0, h = 0, w = 0;
};
}  // namespace cudnn

namespace {

constexpr auto kBadBlas = static_cast<cublas::Code>(7);   // CUBLAS_STATUS_INVALID_VALUE
constexpr auto kBadDnn = static_cast<cudnn::Code>(2000);  // CUDNN_STATUS_BAD_PARAM

void enqueue(void* stream, std::function<void()> work) {
  static_cast<ffdl::testing::HostStream*>(stream)->enqueue(std::move(work));
}

float blended(double alpha, double value, float beta, float before) {
  // A beta of 0 does not read the old value, which may be a NaN.
  return static_cast<float>(alpha * value + (beta == 0 ? 0.0 : double{beta} * before));
}

bool is_scores(const cudnn::TensorOfCudnn* tensor) {
  return tensor != nullptr && tensor->n > 0 && tensor->c > 0 && tensor->h == 1 && tensor->w == 1;
}

bool alike(const cudnn::TensorOfCudnn& a, const cudnn::TensorOfCudnn& b) {
  return a.n == b.n && a.c == b.c;
}

}  // namespace
}  // namespace nlc

using nlc::cublas::Operation;

extern "C" {

nlc::cublas::Code cublasGetProperty(nlc::cublas::Property property, int* value) {
  *value = property == nlc::cublas::Property::kMajorVersion ? FFDL_FAKE_CUBLAS_MAJOR : 1;
  return nlc::cublas::Code::kSuccess;
}

const char* cublasGetStatusString(nlc::cublas::Code) { return "the fake cuBLAS refuses"; }

nlc::cublas::Code cublasCreate_v2(nlc::cublas::Handle* handle) {
  *handle = std::make_unique<nlc::cublas::HandleOfCublas>().release();
  return nlc::cublas::Code::kSuccess;
}

nlc::cublas::Code cublasDestroy_v2(nlc::cublas::Handle handle) {
  const std::unique_ptr<nlc::cublas::HandleOfCublas> ended(handle);
  return nlc::cublas::Code::kSuccess;
}

nlc::cublas::Code cublasSetStream_v2(nlc::cublas::Handle handle, void* stream) {
  handle->stream = stream;
  return nlc::cublas::Code::kSuccess;
}

nlc::cublas::Code cublasSgemm_v2(nlc::cublas::Handle handle, Operation of_a, Operation of_b, int m,
                                 int n, int k, const float* alpha, const float* a, int lda,
                                 const float* b, int ldb, const float* beta, float* c, int ldc) {
  const int a_rows = of_a == Operation::kAsItIs ? m : k;
  const int b_rows = of_b == Operation::kAsItIs ? k : n;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, a_rows) || ldb < std::max(1, b_rows) ||
      ldc < std::max(1, m)) {
    return nlc::kBadBlas;
  }
  // The numbers are read now, the arrays when the stream reaches this work.
  nlc::enqueue(handle->stream, [=, scale = *alpha, keep = *beta] {
    const auto at = [](const float* matrix, int leading, Operation operation, int row, int column) {
      if (operation != Operation::kAsItIs) std::swap(row, column);
      return double{matrix[static_cast<size_t>(column) * static_cast<size_t>(leading) +
                           static_cast<size_t>(row)]};
    };
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0;
        for (int i = 0; i < k; ++i) sum += at(a, lda, of_a, row, i) * at(b, ldb, of_b, i, column);
        float& out =
            c[static_cast<size_t>(column) * static_cast<size_t>(ldc) + static_cast<size_t>(row)];
        out = nlc::blended(scale, sum, keep, out);
      }
    }
  });
  return nlc::cublas::Code::kSuccess;
}

size_t cudnnGetVersion() { return FFDL_FAKE_CUDNN_VERSION; }

const char* cudnnGetErrorString(nlc::cudnn::Code) { return "the fake cuDNN refuses"; }

nlc::cudnn::Code cudnnCreate(nlc::cudnn::Handle* handle) {
  *handle = std::make_unique<nlc::cudnn::HandleOfCudnn>().release();
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnDestroy(nlc::cudnn::Handle handle) {
  const std::unique_ptr<nlc::cudnn::HandleOfCudnn> ended(handle);
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnSetStream(nlc::cudnn::Handle handle, void* stream) {
  handle->stream = stream;
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnCreateTensorDescriptor(nlc::cudnn::Tensor* tensor) {
  *tensor = std::make_unique<nlc::cudnn::TensorOfCudnn>().release();
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnDestroyTensorDescriptor(nlc::cudnn::Tensor tensor) {
  const std::unique_ptr<nlc::cudnn::TensorOfCudnn> ended(tensor);
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnSetTensor4dDescriptor(nlc::cudnn::Tensor tensor, nlc::cudnn::Format,
                                            nlc::cudnn::DataType, int n, int c, int h, int w) {
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0) return nlc::kBadDnn;
  *tensor = {n, c, h, w};
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnSoftmaxForward(nlc::cudnn::Handle handle,
                                     nlc::cudnn::SoftmaxAlgorithm algorithm,
                                     nlc::cudnn::SoftmaxMode, const void* alpha,
                                     nlc::cudnn::Tensor in_tensor, const void* in, const void* beta,
                                     nlc::cudnn::Tensor out_tensor, void* out) {
  if (!nlc::is_scores(in_tensor) || !nlc::is_scores(out_tensor) ||
      !nlc::alike(*in_tensor, *out_tensor) || algorithm != nlc::cudnn::SoftmaxAlgorithm::kLog) {
    return nlc::kBadDnn;
  }
  nlc::enqueue(handle->stream, [in = static_cast<const float*>(in), out = static_cast<float*>(out),
                                rows = in_tensor->n, columns = in_tensor->c,
                                scale = *static_cast<const float*>(alpha),
                                keep = *static_cast<const float*>(beta)] {
    for (int row = 0; row < rows; ++row) {
      const float* const from = in + static_cast<ptrdiff_t>(row) * columns;
      float* const to = out + static_cast<ptrdiff_t>(row) * columns;
      const double largest = *std::max_element(from, from + columns);
      double sum = 0;
      for (int i = 0; i < columns; ++i) sum += std::exp(from[i] - largest);
      for (int i = 0; i < columns; ++i) {
        to[i] = nlc::blended(scale, from[i] - largest - std::log(sum), keep, to[i]);
      }
    }
  });
  return nlc::cudnn::Code::kSuccess;
}

nlc::cudnn::Code cudnnSoftmaxBackward(nlc::cudnn::Handle handle,
                                      nlc::cudnn::SoftmaxAlgorithm algorithm,
                                      nlc::cudnn::SoftmaxMode, const void* alpha,
                                      nlc::cudnn::Tensor out_tensor, const void* out,
                                      nlc::cudnn::Tensor out_gradient_tensor,
                                      const void* out_gradient, const void* beta,
                                      nlc::cudnn::Tensor in_gradient_tensor, void* in_gradient) {
  if (!nlc::is_scores(out_tensor) || !nlc::is_scores(out_gradient_tensor) ||
      !nlc::is_scores(in_gradient_tensor) || !nlc::alike(*out_tensor, *out_gradient_tensor) ||
      !nlc::alike(*out_tensor, *in_gradient_tensor) ||
      algorithm != nlc::cudnn::SoftmaxAlgorithm::kLog) {
    return nlc::kBadDnn;
  }
  nlc::enqueue(
      handle->stream,
      [out = static_cast<const float*>(out), given = static_cast<const float*>(out_gradient),
       to = static_cast<float*>(in_gradient), rows = out_tensor->n, columns = out_tensor->c,
       scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta)] {
        for (int row = 0; row < rows; ++row) {
          const ptrdiff_t first = static_cast<ptrdiff_t>(row) * columns;
          double sum = 0;
          for (int i = 0; i < columns; ++i) sum += given[first + i];
          for (int i = 0; i < columns; ++i) {
            const double gradient = given[first + i] - std::exp(out[first + i]) * sum;
            to[first + i] = nlc::blended(scale, gradient, keep, to[first + i]);
          }
        }
      });
  return nlc::cudnn::Code::kSuccess;
}

}  // extern "C"
