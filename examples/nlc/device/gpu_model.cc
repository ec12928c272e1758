#include "nlc/device/gpu_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace nlc {
namespace {

using cublas::Operation;
using ffdl::Result;
using ffdl::Status;

constexpr float kOne = 1;
constexpr float kZero = 0;

}  // namespace

GpuModel::GpuModel(Gpu& gpu, const Libraries& libraries, const Sizes& sizes)
    : gpu_(gpu), libraries_(libraries), sizes_(sizes) {}

GpuModel::~GpuModel() {
  if (stream_ != nullptr) static_cast<void>(gpu_.wait(stream_.get()));
}

Result<std::unique_ptr<GpuModel>> GpuModel::create(Gpu& gpu, const Libraries& libraries,
                                                   const Sizes& sizes) {
  auto model = std::unique_ptr<GpuModel>(new GpuModel(gpu, libraries, sizes));
  FFDL_ASSIGN_OR_RETURN(model->stream_, gpu.make_stream());
  FFDL_RETURN_IF_ERROR(model->allocate());
  FFDL_RETURN_IF_ERROR(model->open_libraries());
  return model;
}

std::size_t GpuModel::rows_max() const {
  return std::min<std::size_t>(sizes_.texts_max * kFeaturesMax, kTableRows);
}

Status GpuModel::allocate() {
  const std::size_t texts = sizes_.texts_max;
  const std::size_t scores = texts * sizes_.labels;
  const std::size_t features = texts * kFeaturesMax;
  const std::size_t plan_bytes = (4 * features + rows_max() + 2 * texts) * sizeof(uint32_t);
  FFDL_ASSIGN_OR_RETURN(staged_plan_, gpu_.allocate_pinned(plan_bytes));
  FFDL_ASSIGN_OR_RETURN(plan_, gpu_.allocate(plan_bytes));
  const std::size_t weight_bytes = (head_floats() + rows_max() * kWidth) * sizeof(float);
  FFDL_ASSIGN_OR_RETURN(weights_, gpu_.allocate(weight_bytes));
  FFDL_ASSIGN_OR_RETURN(gradients_, gpu_.allocate(weight_bytes));
  FFDL_ASSIGN_OR_RETURN(losses_, gpu_.allocate_pinned(texts * sizeof(float)));

  std::size_t floats = 0;
  const std::pair<float**, std::size_t> parts[] = {
      {&sums_, texts * kTextWidth},       {&logits_, scores},
      {&log_probabilities_, scores},      {&log_gradients_, scores},
      {&text_gradients_, texts * kWidth}, {&text_losses_, texts}};
  const auto room = [](std::size_t size) { return (size + kWidth - 1) / kWidth * kWidth; };
  for (const auto& [part, size] : parts) floats += room(size);
  FFDL_ASSIGN_OR_RETURN(scratch_, gpu_.allocate(floats * sizeof(float)));
  auto* next = reinterpret_cast<float*>(scratch_.get());
  for (const auto& [part, size] : parts) *part = std::exchange(next, next + room(size));
  return {};
}

Status GpuModel::open_libraries() {
  const cublas::Functions& blas = libraries_.cublas();
  const cudnn::Functions& dnn = libraries_.cudnn();
  cublas::Handle blas_handle = nullptr;
  FFDL_RETURN_IF_ERROR(status_of(libraries_, blas.create(&blas_handle), "open cuBLAS"));
  cublas_ = {blas_handle, [&blas](cublas::Handle handle) { blas.destroy(handle); }};
  FFDL_RETURN_IF_ERROR(
      status_of(libraries_, blas.set_stream(blas_handle, stream_.get()), "open cuBLAS"));
  cudnn::Handle dnn_handle = nullptr;
  FFDL_RETURN_IF_ERROR(status_of(libraries_, dnn.create(&dnn_handle), "open cuDNN"));
  cudnn_ = {dnn_handle, [&dnn](cudnn::Handle handle) { dnn.destroy(handle); }};
  FFDL_RETURN_IF_ERROR(
      status_of(libraries_, dnn.set_stream(dnn_handle, stream_.get()), "open cuDNN"));
  cudnn::Tensor tensor = nullptr;
  FFDL_RETURN_IF_ERROR(status_of(libraries_, dnn.create_tensor(&tensor), "describe the scores"));
  scores_ = {tensor, [&dnn](cudnn::Tensor described) { dnn.destroy_tensor(described); }};
  return {};
}

Status GpuModel::upload(const BatchPlan& plan) {
  std::byte* const staged = staged_plan_.get();
  std::size_t end = 0;
  const auto stage = [&](const auto& numbers) {
    static_assert(sizeof numbers[0] == sizeof(uint32_t));
    const std::size_t begin = std::exchange(end, end + numbers.size());
    if (!numbers.empty()) {
      std::memcpy(staged + begin * sizeof(uint32_t), numbers.data(),
                  numbers.size() * sizeof(uint32_t));
    }
    return begin;
  };
  places_.place = stage(plan.place);
  places_.factors = stage(plan.factors);
  places_.text_ends = stage(plan.text_ends);
  places_.labels = stage(plan.labels);
  places_.row_ends = stage(plan.row_ends);
  places_.use_texts = stage(plan.use_texts);
  places_.use_factors = stage(plan.use_factors);
  rows_in_use_ = plan.rows.size();
  texts_ = plan.texts();
  FFDL_RETURN_IF_ERROR(
      status_of(libraries_,
                libraries_.cudnn().set_tensor(scores_.get(), cudnn::Format::kNchw,
                                              cudnn::DataType::kFloat, static_cast<int>(texts_),
                                              static_cast<int>(sizes_.labels), 1, 1),
                "describe the scores"));
  return gpu_.copy(plan_.get(), staged, end * sizeof(uint32_t), stream());
}

// Multiplies row-major matrices, which are the transposed ones of cuBLAS's column-major matrices.
Status GpuModel::multiply(Operation of_a, Operation of_b, int m, int n, int k, const float* a,
                          int a_leading, const float* b, int b_leading, float* c, int c_leading) {
  return status_of(libraries_,
                   libraries_.cublas().sgemm(cublas_.get(), of_a, of_b, m, n, k, &kOne, a,
                                             a_leading, b, b_leading, &kZero, c, c_leading),
                   "multiply by the linear layer");
}

Status GpuModel::compute() {
  FFDL_RETURN_IF_ERROR(forward());
  FFDL_RETURN_IF_ERROR(gpu_.run(TakeLoss{.log_probabilities = log_probabilities_,
                                         .label = planned<uint32_t>(places_.labels),
                                         .texts = texts_,
                                         .labels = sizes_.labels,
                                         .losses = text_losses_,
                                         .gradient = log_gradients_},
                                stream()));
  FFDL_RETURN_IF_ERROR(gpu_.copy(losses_.get(), text_losses_, texts_ * sizeof(float), stream()));
  return backward();
}

Status GpuModel::forward() {
  FFDL_RETURN_IF_ERROR(gpu_.run(SumRows{.rows = rows().data(),
                                        .place = planned<uint32_t>(places_.place),
                                        .factors = planned<float>(places_.factors),
                                        .ends = planned<uint32_t>(places_.text_ends),
                                        .texts = texts_,
                                        .sums = sums_},
                                stream()));
  // logits = sums * head
  const int labels = static_cast<int>(sizes_.labels);
  FFDL_RETURN_IF_ERROR(multiply(Operation::kAsItIs, Operation::kAsItIs, labels,
                                static_cast<int>(texts_), kTextWidth, head().data(), labels, sums_,
                                kTextWidth, logits_, labels));
  return status_of(libraries_,
                   libraries_.cudnn().softmax_forward(
                       cudnn_.get(), cudnn::SoftmaxAlgorithm::kLog, cudnn::SoftmaxMode::kInstance,
                       &kOne, scores_.get(), logits_, &kZero, scores_.get(), log_probabilities_),
                   "compute the softmax");
}

Status GpuModel::backward() {
  const int labels = static_cast<int>(sizes_.labels);
  const int texts = static_cast<int>(texts_);
  float* const logit_gradients = logits_;
  FFDL_RETURN_IF_ERROR(status_of(
      libraries_,
      libraries_.cudnn().softmax_backward(cudnn_.get(), cudnn::SoftmaxAlgorithm::kLog,
                                          cudnn::SoftmaxMode::kInstance, &kOne, scores_.get(),
                                          log_probabilities_, scores_.get(), log_gradients_, &kZero,
                                          scores_.get(), logit_gradients),
      "compute the gradient of the softmax"));
  // head gradient = sums^T * logit gradients
  FFDL_RETURN_IF_ERROR(multiply(Operation::kAsItIs, Operation::kTransposed, labels, kTextWidth,
                                texts, logit_gradients, labels, sums_, kTextWidth, gradients(),
                                labels));
  // text gradients = logit gradients * head^T, without the row of the bias
  FFDL_RETURN_IF_ERROR(multiply(Operation::kTransposed, Operation::kAsItIs, kWidth, texts, labels,
                                head().data(), labels, logit_gradients, labels, text_gradients_,
                                kWidth));
  return gpu_.run(SpreadRows{.text_gradients = text_gradients_,
                             .ends = planned<uint32_t>(places_.row_ends),
                             .texts = planned<uint32_t>(places_.use_texts),
                             .factors = planned<float>(places_.use_factors),
                             .rows = static_cast<uint32_t>(rows_in_use_),
                             .gradient = gradients() + head_floats()},
                  stream());
}

float GpuModel::loss() const {
  const auto* const losses = reinterpret_cast<const float*>(losses_.get());
  return std::accumulate(losses, losses + texts_, 0.0F) / static_cast<float>(texts_);
}

}  // namespace nlc
