#include "nlc/gather.h"

namespace nlc {
namespace {

constexpr float kDropout = 0.5F;  // of features

}  // namespace

void gather(const Sentences& sentences, const training::MiniBatch& mini_batch, Gathered& gathered) {
  gathered.features.clear();
  gathered.labels.clear();
  for (const uint64_t sample : mini_batch.samples) {
    append_features(sentences.texts[sample], gathered.features);
    gathered.labels.push_back(sentences.labels[sample]);
  }
  layers::Random random(mini_batch.seed);
  drop_features(kDropout, random, gathered.features);
}

}  // namespace nlc
