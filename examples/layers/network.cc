#include "layers/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace layers {
namespace {

std::span<const float> row_of(ConstBatch batch, int row) {
  const auto columns = static_cast<std::size_t>(batch.columns);
  return {batch.data + static_cast<std::size_t>(row) * columns, columns};
}

}  // namespace

Batch batch_in(std::vector<float>& storage, int rows, int columns) {
  storage.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  return {storage.data(), rows, columns};
}

ffdl::Result<Network> Network::stack(std::vector<std::unique_ptr<Layer>> layers) {
  if (layers.empty()) {
    return ffdl::Status(ffdl::StatusCode::kInvalidArgument,
                        "stack a network: no layers; give at least one");
  }
  for (std::size_t i = 1; i < layers.size(); ++i) {
    if (layers[i]->inputs() == layers[i - 1]->outputs()) continue;
    return ffdl::Status(
        ffdl::StatusCode::kInvalidArgument,
        fmt::format(
            "stack layer '{}' of a network: it takes {} floats per sample, the layer before "
            "it gives {}; make them equal",
            i, layers[i]->inputs(), layers[i - 1]->outputs()));
  }
  return Network(std::move(layers));
}

Network::Network(std::vector<std::unique_ptr<Layer>> layers)
    : layers_(std::move(layers)), activations_(layers_.size()), gradients_(layers_.size()) {
  for (const auto& layer : layers_) {
    offsets_.push_back(parameters_);
    parameters_ += layer->parameters();
  }
}

void Network::initialize(std::span<float> parameters, Random& random) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->initialize(parameters.subspan(offsets_[i], layers_[i]->parameters()), random);
  }
}

ConstBatch Network::forward(std::span<const float> parameters, ConstBatch input) {
  input_ = input;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Batch output = batch_in(activations_[i], input.rows, layers_[i]->outputs());
    layers_[i]->forward(parameters.subspan(offsets_[i], layers_[i]->parameters()), input, output);
    input = output;
  }
  return input;
}

void Network::backward(std::span<const float> parameters, ConstBatch output_gradient,
                       std::span<float> parameter_gradient) {
  const int rows = input_.rows;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = *layers_[i];
    const BackwardPass pass{
        .input = i == 0 ? input_ : ConstBatch(activations_[i - 1].data(), rows, layer.inputs()),
        .output = ConstBatch(activations_[i].data(), rows, layer.outputs()),
        .output_gradient = output_gradient,
        .input_gradient = i == 0 ? Batch{} : batch_in(gradients_[i], rows, layer.inputs())};
    layer.backward(parameters.subspan(offsets_[i], layer.parameters()), pass,
                   parameter_gradient.subspan(offsets_[i], layer.parameters()));
    output_gradient = pass.input_gradient;
  }
}

float softmax_cross_entropy(ConstBatch logits, std::span<const int> labels, Batch gradient) {
  const auto rows = static_cast<float>(logits.rows);
  float loss = 0;
  for (int row = 0; row < logits.rows; ++row) {
    const auto values = row_of(logits, row);
    const auto label = static_cast<std::size_t>(labels[static_cast<std::size_t>(row)]);
    // Subtracts the largest value, so that exp cannot overflow.
    const float largest = *std::max_element(values.begin(), values.end());
    float sum = 0;
    for (const float value : values) sum += std::exp(value - largest);
    loss += std::log(sum) - (values[label] - largest);
    if (gradient.data == nullptr) continue;
    float* out = gradient.data + static_cast<std::size_t>(row) * values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      out[i] = std::exp(values[i] - largest) / (sum * rows);
    }
    out[label] -= 1.0F / rows;
  }
  return loss / rows;
}

int count_correct(ConstBatch logits, std::span<const int> labels) {
  int correct = 0;
  for (int row = 0; row < logits.rows; ++row) {
    const auto values = row_of(logits, row);
    const auto best = std::max_element(values.begin(), values.end()) - values.begin();
    if (best == labels[static_cast<std::size_t>(row)]) ++correct;
  }
  return correct;
}

}  // namespace layers
