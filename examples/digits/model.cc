#include "digits/model.h"

#include <memory>
#include <utility>

#include "layers/layers.h"

namespace digits {
namespace {

layers::Network make_network() {
  constexpr int kHidden = 64;
  const layers::Conv2dOptions first{.input = {kSide, kSide, 1}, .channels = 16};
  const layers::Conv2dOptions second{.input = conv2d_output(first), .channels = 32};
  const layers::MaxPoolOptions pool{.input = conv2d_output(second)};
  const int features = max_pool_output(pool).size();

  std::vector<std::unique_ptr<layers::Layer>> stack;
  stack.push_back(conv2d(first));
  stack.push_back(layers::relu(conv2d_output(first).size()));
  stack.push_back(conv2d(second));
  stack.push_back(layers::relu(conv2d_output(second).size()));
  stack.push_back(max_pool(pool));
  stack.push_back(layers::linear(features, kHidden));
  stack.push_back(layers::relu(kHidden));
  stack.push_back(layers::linear(kHidden, kClasses));
  return layers::Network::stack(std::move(stack)).value();
}

layers::ConstBatch images(const Samples& samples) {
  return {samples.pixels.data(), static_cast<int>(samples.size()), kPixels};
}

}  // namespace

Model::Model() : network_(make_network()) {}

void Model::initialize(std::span<float> weights, uint64_t seed) const {
  layers::Random random(seed);
  network_.initialize(weights, random);
}

float Model::gradient(std::span<const float> weights, const Samples& mini_batch,
                      std::span<float> gradient) {
  const layers::ConstBatch logits = network_.forward(weights, images(mini_batch));
  logit_gradients_.resize(mini_batch.size() * kClasses);
  const layers::Batch logit_gradient{logit_gradients_.data(), logits.rows, logits.columns};
  const float loss = softmax_cross_entropy(logits, mini_batch.labels, logit_gradient);
  network_.backward(weights, logit_gradient, gradient);
  return loss;
}

training::Score Model::evaluate(std::span<const float> weights, const Samples& samples) {
  const layers::ConstBatch logits = network_.forward(weights, images(samples));
  const auto correct = static_cast<float>(count_correct(logits, samples.labels));
  return {.loss = softmax_cross_entropy(logits, samples.labels, {}),
          .accuracy = correct / static_cast<float>(samples.size())};
}

}  // namespace digits
