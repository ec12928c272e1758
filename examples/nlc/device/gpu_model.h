#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "nlc/device/batch_plan.h"
#include "nlc/device/gpu.h"
#include "nlc/device/libraries.h"

namespace nlc {

// The classifier of model.h in a GPU's memory, with room for one mini-batch. All its work is in
// order on one stream of its own. Two of these are used in turn: one computes while the other
// receives the weights of the next mini-batch. The embedding is three kernels of ours, the linear
// layer three products by cuBLAS; softmax and its gradient are from cuDNN. A text has a last column
// of ones, so that the bias is the last row of the layer's matrix, as in the parameters.
// Threads: one at a time. Owns: the memory, the stream, handles of cuBLAS and cuDNN.
// Blocks: the destructor, until the GPU has done its work. Errors: those of Gpu.
class GpuModel {
 public:
  struct Sizes {
    uint32_t labels = 0;
    uint32_t texts_max = 0;  // of a mini-batch
  };
  // `gpu` must outlive it.
  static ffdl::Result<std::unique_ptr<GpuModel>> create(Gpu& gpu, const Libraries& libraries,
                                                        const Sizes& sizes);
  ~GpuModel();
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  // Uploads a mini-batch. The GPU must be done with the last one: the caller has waited for it.
  ffdl::Status upload(const BatchPlan& plan);
  // Returns the destination of that mini-batch's weights, to be filled before compute():
  // rows().size() / kWidth rows, as in the plan, and the linear layer.
  std::span<float> rows() const { return {weights() + head_floats(), row_floats()}; }
  std::span<float> head() const { return {weights(), head_size()}; }

  // Computes the loss and the gradients. Returns when the GPU has received the work.
  ffdl::Status compute();
  std::span<const float> row_gradients() const {
    return {gradients() + head_floats(), row_floats()};
  }
  std::span<const float> head_gradient() const { return {gradients(), head_size()}; }
  // Returns the mean over the texts. Valid when the GPU has computed it.
  float loss() const;

  Stream stream() const { return stream_.get(); }

 private:
  // The places of a mini-batch's numbers, in the order of BatchPlan, in one piece of memory.
  struct Places {
    std::size_t place, factors, text_ends, labels, row_ends, use_texts, use_factors;
  };
  template <class T>
  using Handle = std::unique_ptr<T, std::function<void(T*)>>;

  GpuModel(Gpu& gpu, const Libraries& libraries, const Sizes& sizes);
  ffdl::Status allocate();
  ffdl::Status open_libraries();
  std::size_t rows_max() const;
  std::size_t head_size() const { return std::size_t{kTextWidth} * sizes_.labels; }
  // Returns the size that aligns the rows for fast reads by a GPU.
  std::size_t head_floats() const { return (head_size() + kWidth - 1) / kWidth * kWidth; }
  std::size_t row_floats() const { return rows_in_use_ * kWidth; }
  float* weights() const { return reinterpret_cast<float*>(weights_.get()); }
  float* gradients() const { return reinterpret_cast<float*>(gradients_.get()); }
  template <class T>
  const T* planned(std::size_t place) const {
    return reinterpret_cast<const T*>(plan_.get()) + place;
  }
  ffdl::Status multiply(cublas::Operation of_a, cublas::Operation of_b, int m, int n, int k,
                        const float* a, int a_leading, const float* b, int b_leading, float* c,
                        int c_leading);
  ffdl::Status forward();
  ffdl::Status backward();

  Gpu& gpu_;
  const Libraries libraries_;
  const Sizes sizes_;
  OwnedStream stream_;
  GpuMemory staged_plan_;  // pinned: the processor writes a plan here
  GpuMemory plan_;
  GpuMemory weights_;  // the linear layer, then the rows
  GpuMemory gradients_;
  GpuMemory scratch_;
  GpuMemory losses_;  // pinned
  // The pointers below are into scratch_.
  float* sums_ = nullptr;               // texts x kTextWidth
  float* logits_ = nullptr;             // texts x labels; then the gradient at them
  float* log_probabilities_ = nullptr;  // texts x labels
  float* log_gradients_ = nullptr;      // texts x labels
  float* text_gradients_ = nullptr;     // texts x kWidth
  float* text_losses_ = nullptr;        // texts
  Handle<cublas::HandleOfCublas> cublas_;
  Handle<cudnn::HandleOfCudnn> cudnn_;
  Handle<cudnn::TensorOfCudnn> scores_;  // the layout of texts x labels
  Places places_{};
  std::size_t rows_in_use_ = 0;
  uint32_t texts_ = 0;
};

}  // namespace nlc
