#include <cublas_v2.h>
#include <cudnn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nlc/device/interface.h"
#include "nlc/device/libraries.h"
#include "support/same_shape.h"
#include "support/status_matchers.h"

// Compares the declarations of cuBLAS and cuDNN in examples/nlc/device/interface.h with their own
// headers.
namespace nlc {
namespace {

using ffdl::testing::expect_same;
using ffdl::testing::same_shape;

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

// Names only the types of the libraries, and links nothing.
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

// The libraries load and return their versions even without a GPU or a driver.
TEST(DeviceInterface, TheLibrariesHaveAllThatIsCalled) {
  const std::string cublas = FFDL_CUBLAS_LIBRARY;
  const std::string cudnn = FFDL_CUDNN_LIBRARY;
  for (const std::string& path : {cublas, cudnn}) {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "there are headers, but no " << path;
  }
  ASSERT_OK_AND_ASSIGN(const Libraries libraries, Libraries::load({cublas}, {cudnn}));
  EXPECT_EQ(libraries.versions(),
            fmt::format("cuBLAS {}.{}.{}, cuDNN {}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR,
                        CUBLAS_VER_PATCH, CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL));
}

}  // namespace
}  // namespace nlc
