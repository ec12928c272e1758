#include <cublas_v2.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "nlc/device/interface.h"

// What examples/nlc/device/interface.h says of cuBLAS and cuDNN, against their own headers.
namespace nlc {
namespace {

// Two types that are passed alike: pointers, or numbers of one size.
template <class Ours, class Theirs>
constexpr bool alike() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
}

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
constexpr bool same_shape(OurResult (*)(Ours...), TheirResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return alike<OurResult, TheirResult>() && (alike<Ours, Theirs>() && ...);
  }
  return false;
}

template <class Ours, class Theirs>
void expect_same(Ours ours, Theirs theirs) {
  EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs));
}

TEST(DeviceInterface, NumbersAreThoseOfTheHeaders) {
  expect_same(cublas::Code::kSuccess, CUBLAS_STATUS_SUCCESS);
  expect_same(cublas::Operation::kAsItIs, CUBLAS_OP_N);
  expect_same(cublas::Operation::kTransposed, CUBLAS_OP_T);
  expect_same(cublas::Property::kMajorVersion, MAJOR_VERSION);
  expect_same(cublas::Property::kMinorVersion, MINOR_VERSION);
  expect_same(cublas::Property::kPatchLevel, PATCH_LEVEL);
  expect_same(cudnn::Code::kSuccess, CUDNN_STATUS_SUCCESS);
  expect_same(cudnn::Format::kNchw, CUDNN_TENSOR_NCHW);
  expect_same(cudnn::DataType::kFloat, CUDNN_DATA_FLOAT);
  expect_same(cudnn::SoftmaxAlgorithm::kLog, CUDNN_SOFTMAX_LOG);
  expect_same(cudnn::SoftmaxMode::kInstance, CUDNN_SOFTMAX_MODE_INSTANCE);
}

// Only their types are named: nothing is linked.
TEST(DeviceInterface, FunctionsHaveTheShapesOfTheHeaders) {
  const cublas::Functions blas{};
  EXPECT_TRUE(same_shape(blas.get_property, decltype(&cublasGetProperty){}));
  EXPECT_TRUE(same_shape(blas.get_status_string, decltype(&cublasGetStatusString){}));
  EXPECT_TRUE(same_shape(blas.create, decltype(&cublasCreate_v2){}));
  EXPECT_TRUE(same_shape(blas.destroy, decltype(&cublasDestroy_v2){}));
  EXPECT_TRUE(same_shape(blas.set_stream, decltype(&cublasSetStream_v2){}));
  EXPECT_TRUE(same_shape(blas.sgemm, decltype(&cublasSgemm_v2){}));
  const cudnn::Functions dnn{};
  EXPECT_TRUE(same_shape(dnn.get_version, decltype(&cudnnGetVersion){}));
  EXPECT_TRUE(same_shape(dnn.get_error_string, decltype(&cudnnGetErrorString){}));
  EXPECT_TRUE(same_shape(dnn.create, decltype(&cudnnCreate){}));
  EXPECT_TRUE(same_shape(dnn.destroy, decltype(&cudnnDestroy){}));
  EXPECT_TRUE(same_shape(dnn.set_stream, decltype(&cudnnSetStream){}));
  EXPECT_TRUE(same_shape(dnn.create_tensor, decltype(&cudnnCreateTensorDescriptor){}));
  EXPECT_TRUE(same_shape(dnn.destroy_tensor, decltype(&cudnnDestroyTensorDescriptor){}));
  EXPECT_TRUE(same_shape(dnn.set_tensor, decltype(&cudnnSetTensor4dDescriptor){}));
  EXPECT_TRUE(same_shape(dnn.softmax_forward, decltype(&cudnnSoftmaxForward){}));
  EXPECT_TRUE(same_shape(dnn.softmax_backward, decltype(&cudnnSoftmaxBackward){}));
}

}  // namespace
}  // namespace nlc
