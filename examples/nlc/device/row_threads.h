#pragma once

#include <cstdint>

#include "nlc/width.h"

// The kernels of the classifier, for operations that cuBLAS and cuDNN lack. Each kernel only calls
// the function of its name here, which computes the part of thread `thread` of `threads`. The
// functions are also compiled for the host, so that they are tested without a GPU.
#ifdef __CUDACC__
#define NLC_HOST_DEVICE __host__ __device__
#else
#define NLC_HOST_DEVICE
#endif

namespace nlc {

// The floats of a text: the sum of its rows, and a one that the head's bias is multiplied by.
inline constexpr int kTextWidth = kWidth + 1;

// Computes the embedding: each text is the sum of its features' rows. Features are stored text
// after text.
struct SumRows {
  const float* rows = nullptr;      // the distinct rows of the mini-batch
  const uint32_t* place = nullptr;  // for each feature: its row
  const float* factors = nullptr;   // of each feature
  const uint32_t* ends = nullptr;   // of each text's features
  uint32_t texts = 0;
  float* sums = nullptr;  // texts x kTextWidth

  uint64_t work() const { return uint64_t{texts} * kTextWidth; }
};

// Computes a thread's text and column. Adds features in their order, as on the processor.
NLC_HOST_DEVICE inline void run_thread(const SumRows& sum, uint64_t thread, uint64_t threads) {
  for (uint64_t i = thread; i < uint64_t{sum.texts} * kTextWidth; i += threads) {
    const uint64_t text = i / kTextWidth;
    const uint64_t column = i % kTextWidth;
    if (column == kWidth) {
      sum.sums[i] = 1.0F;
      continue;
    }
    float total = 0;
    for (uint32_t f = text == 0 ? 0 : sum.ends[text - 1]; f < sum.ends[text]; ++f) {
      total += sum.factors[f] * sum.rows[uint64_t{sum.place[f]} * kWidth + column];
    }
    sum.sums[i] = total;
  }
}

// Computes a loss from the logarithms of the probabilities: its value, -log p(label), and the
// gradient of the mean over the texts with respect to those logarithms.
struct TakeLoss {
  const float* log_probabilities = nullptr;  // texts x labels
  const uint32_t* label = nullptr;           // of each text
  uint32_t texts = 0;
  uint32_t labels = 0;
  float* losses = nullptr;    // of each text
  float* gradient = nullptr;  // texts x labels

  uint64_t work() const { return uint64_t{texts} * labels; }
};

NLC_HOST_DEVICE inline void run_thread(const TakeLoss& take, uint64_t thread, uint64_t threads) {
  for (uint64_t i = thread; i < uint64_t{take.texts} * take.labels; i += threads) {
    const uint64_t text = i / take.labels;
    const bool is_label = i % take.labels == take.label[text];
    take.gradient[i] = is_label ? -1.0F / static_cast<float>(take.texts) : 0.0F;
    if (is_label) take.losses[text] = -take.log_probabilities[i];
  }
}

// Computes the embedding's gradient: for a row, the sum of the texts' gradients over its uses. Each
// row has its own threads, so that the order of additions never changes.
struct SpreadRows {
  const float* text_gradients = nullptr;  // texts x kWidth
  const uint32_t* ends = nullptr;         // of each row's uses
  const uint32_t* texts = nullptr;        // of each use
  const float* factors = nullptr;         // of each use
  uint32_t rows = 0;
  float* gradient = nullptr;  // rows x kWidth

  uint64_t work() const { return uint64_t{rows} * kWidth; }
};

NLC_HOST_DEVICE inline void run_thread(const SpreadRows& spread, uint64_t thread,
                                       uint64_t threads) {
  for (uint64_t i = thread; i < uint64_t{spread.rows} * kWidth; i += threads) {
    const uint64_t row = i / kWidth;
    const uint64_t column = i % kWidth;
    float total = 0;
    for (uint32_t u = row == 0 ? 0 : spread.ends[row - 1]; u < spread.ends[row]; ++u) {
      total +=
          spread.factors[u] * spread.text_gradients[uint64_t{spread.texts[u]} * kWidth + column];
    }
    spread.gradient[i] = total;
  }
}

}  // namespace nlc
