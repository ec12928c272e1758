#pragma once

#include <vector>

#include "nlc/corpus.h"
#include "nlc/features.h"
#include "training/task.h"

namespace nlc {

// What a gradient is computed from.
struct Gathered {
  Features features;
  std::vector<int> labels;
};

// The features of a mini-batch's sentences, half of them dropped at random, as training does; the
// same ones whoever asks.
void gather(const Sentences& sentences, const training::MiniBatch& mini_batch, Gathered& gathered);

}  // namespace nlc
