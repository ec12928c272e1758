#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "elastic_jobs/model.h"
#include "layers/random.h"
#include "nlc/features.h"
#include "nlc/model.h"

namespace elastic {
namespace {

constexpr float kDropout = 0.5F;  // of features, in training
constexpr int kTableBits = nlc::kTableBits - 3;
constexpr float kFirstDecay = 0.9F;
constexpr float kSecondDecay = 0.999F;
constexpr float kEpsilon = 1e-8F;

// Returns a seed for one use of one sample.
uint64_t seed_of(uint64_t seed, uint64_t step, uint64_t sample) {
  uint64_t mixed = seed;
  for (const uint64_t part : {step, sample}) mixed = layers::Random(mixed ^ part).next();
  return mixed;
}

class NlcModel final : public Model {
 public:
  NlcModel(nlc::Corpus corpus, const ModelOptions& options, uint64_t steps)
      : options_(options),
        steps_(steps),
        corpus_(std::move(corpus)),
        classifier_(corpus_.labels.size(), kTableBits),
        weights_(classifier_.parameters()),
        first_(weights_.size()),
        second_(weights_.size()),
        gradient_(weights_.size()) {
    classifier_.initialize(weights_, options.seed);
  }

  std::vector<ffdl::Buffer> state() override {
    return {{weights_.data(), weights_.size()},
            {first_.data(), first_.size()},
            {second_.data(), second_.size()},
            {&applied_, 1, ffdl::DType::kInt64}};
  }
  std::vector<ffdl::Buffer> gradients() override { return {{gradient_.data(), gradient_.size()}}; }
  void apply() override {
    const auto step = static_cast<float>(++applied_);
    const float left = std::max(0.0F, 1 - (step - 1) / static_cast<float>(steps_));
    const float first_whole = 1 - std::pow(kFirstDecay, step);
    const float second_whole = 1 - std::pow(kSecondDecay, step);
    const float rate = options_.learning_rate * left * std::sqrt(second_whole) / first_whole;
    for (size_t i = 0; i < weights_.size(); ++i) {
      first_[i] = kFirstDecay * first_[i] + (1 - kFirstDecay) * gradient_[i];
      second_[i] = kSecondDecay * second_[i] + (1 - kSecondDecay) * gradient_[i] * gradient_[i];
      weights_[i] -= rate * first_[i] / (std::sqrt(second_[i]) + kEpsilon);
    }
  }
  ffdl::Status begin_anew() override {
    classifier_.initialize(weights_, options_.seed);
    first_.assign(first_.size(), 0);
    second_.assign(second_.size(), 0);
    applied_ = 0;
    return {};
  }

  uint64_t samples() const override { return corpus_.train.size(); }
  float compute(std::span<const uint64_t> samples, uint64_t step) override {
    if (samples.empty()) return 0;
    gather(samples, step);
    const float loss = classifier_.gradient(features_, labels_, parameters_, parts_);
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (size_t i = 0; i < features_.rows.size(); ++i) {
      float* const row = &gradient_[features_.rows[i] * nlc::kWidth];
      for (size_t j = 0; j < nlc::kWidth; ++j) row[j] += parts_.rows[i * nlc::kWidth + j];
    }
    std::copy(parts_.head.begin(), parts_.head.end(), &gradient_[classifier_.head_begin()]);
    return loss;
  }
  std::span<const float> weights() const override { return weights_; }
  training::Score validate() override { return classifier_.evaluate(weights_, corpus_.validation); }
  training::Score test() override { return classifier_.evaluate(weights_, corpus_.test); }
  uint64_t test_samples() const override { return corpus_.test.size(); }

 private:
  // Gathers the samples' features and labels, and the parameters that these need. The dropped
  // features depend on the step and the sample, not on the worker.
  void gather(std::span<const uint64_t> samples, uint64_t step) {
    features_.clear();
    labels_.clear();
    for (const uint64_t sample : samples) {
      text_.clear();
      nlc::append_features(corpus_.train.texts[sample], text_, kTableBits);
      layers::Random random(seed_of(options_.seed, step, sample));
      nlc::drop_features(kDropout, random, text_);
      features_.rows.insert(features_.rows.end(), text_.rows.begin(), text_.rows.end());
      features_.factors.insert(features_.factors.end(), text_.factors.begin(), text_.factors.end());
      features_.ends.push_back(features_.rows.size());
      labels_.push_back(corpus_.train.labels[sample]);
    }
    classifier_.take(weights_, features_, parameters_);
  }

  const ModelOptions options_;
  const uint64_t steps_;
  const nlc::Corpus corpus_;
  nlc::Model classifier_;
  std::vector<float> weights_;
  std::vector<float> first_;  // moments of the gradient
  std::vector<float> second_;
  int64_t applied_ = 0;
  std::vector<float> gradient_;

  nlc::Features text_;
  nlc::Features features_;
  std::vector<int> labels_;
  nlc::Model::Parameters parameters_;
  nlc::Model::Parameters parts_;  // of the gradient
};

}  // namespace

std::unique_ptr<Model> nlc_model(nlc::Corpus corpus, const ModelOptions& options, uint64_t steps) {
  return std::make_unique<NlcModel>(std::move(corpus), options, steps);
}

}  // namespace elastic
