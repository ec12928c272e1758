#include <vector>

#include "digits/model.h"
#include "elastic_jobs/model.h"

namespace elastic {
namespace {

constexpr float kMomentum = 0.9F;

class DigitsModel final : public Model {
 public:
  DigitsModel(const digits::Split& split, const ModelOptions& options)
      : options_(options),
        split_(split),
        weights_(network_.parameters()),
        momentum_(weights_.size()),
        gradient_(weights_.size()) {
    network_.initialize(weights_, options.seed);
  }

  std::vector<ffdl::Buffer> state() override {
    return {{weights_.data(), weights_.size()}, {momentum_.data(), momentum_.size()}};
  }
  std::vector<ffdl::Buffer> gradients() override { return {{gradient_.data(), gradient_.size()}}; }
  void apply() override {
    for (size_t i = 0; i < weights_.size(); ++i) {
      momentum_[i] = kMomentum * momentum_[i] + gradient_[i];
      weights_[i] -= options_.learning_rate * momentum_[i];
    }
  }
  ffdl::Status begin_anew() override {
    network_.initialize(weights_, options_.seed);
    momentum_.assign(momentum_.size(), 0);
    return {};
  }

  uint64_t samples() const override { return split_.train.size(); }
  float compute(std::span<const uint64_t> samples, uint64_t /*step*/) override {
    mini_batch_.clear();
    for (const uint64_t sample : samples) {
      mini_batch_.append(split_.train.image(sample), split_.train.labels[sample]);
    }
    return samples.empty() ? 0 : network_.gradient(weights_, mini_batch_, gradient_);
  }
  std::span<const float> weights() const override { return weights_; }
  training::Score validate() override { return network_.evaluate(weights_, split_.validation); }
  training::Score test() override { return network_.evaluate(weights_, split_.test); }
  uint64_t test_samples() const override { return split_.test.size(); }

 private:
  const ModelOptions options_;
  const digits::Split& split_;
  digits::Model network_;
  std::vector<float> weights_;
  std::vector<float> momentum_;
  std::vector<float> gradient_;
  digits::Samples mini_batch_;
};

}  // namespace

std::unique_ptr<Model> digits_model(const digits::Split& split, const ModelOptions& options) {
  return std::make_unique<DigitsModel>(split, options);
}

}  // namespace elastic
