#pragma once

#include <vector>

#include "nlc/corpus.h"
#include "nlc/features.h"
#include "training/task.h"

namespace nlc {

// The input of a gradient.
struct Gathered {
  Features features;
  std::vector<int> labels;
};

// Gathers the features of a mini-batch's sentences. Half of them are dropped at random, as in
// training; every caller gets the same ones.
void gather(const Sentences& sentences, const training::MiniBatch& mini_batch, Gathered& gathered);

}  // namespace nlc
