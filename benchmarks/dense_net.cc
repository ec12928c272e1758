#include "benchmarks/dense_net.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ffdl::bench {

struct DenseNet::Layers {
  Eigen::Index count;
  Eigen::Index width;
  std::vector<Eigen::MatrixXf> values;  // one matrix per boundary, with a column per row of the
                                        // batch
  Eigen::MatrixXf errors;               // at a layer's output
  Eigen::MatrixXf deeper;               // at its input
};

DenseNet::DenseNet(int layers, int width, int rows)
    : layers_(std::make_unique<Layers>(Layers{
          layers, width, std::vector<Eigen::MatrixXf>(static_cast<size_t>(layers) + 1), {}, {}})) {
  for (auto& value : layers_->values) value.setZero(width, rows);
  std::mt19937 random(1);
  std::normal_distribution<float> noise;
  std::ranges::generate(layers_->values[0].reshaped(), [&] { return std::abs(noise(random)); });
}

DenseNet::~DenseNet() = default;

size_t DenseNet::parameters() const {
  return static_cast<size_t>(layers_->count * layers_->width * layers_->width);
}

void DenseNet::initialise(std::span<float> weights) const {
  std::mt19937 random(2);
  std::normal_distribution<float> noise(0, std::sqrt(2.0F / static_cast<float>(layers_->width)));
  std::ranges::generate(weights, [&] { return noise(random); });
}

void DenseNet::compute(std::span<const float> weights, std::span<float> gradient) {
  auto& [count, width, values, errors, deeper] = *layers_;
  const auto layer = [&](Eigen::Index l) {
    return Eigen::Map<const Eigen::MatrixXf>(weights.data() + l * width * width, width, width);
  };
  for (Eigen::Index l = 0; l < count; ++l) {
    auto& out = values[static_cast<size_t>(l) + 1];
    out.noalias() = layer(l) * values[static_cast<size_t>(l)];
    out = out.cwiseMax(0.0F);
  }
  // The loss is half the squared distance of the output to one.
  errors = (values.back().array() - 1.0F) / static_cast<float>(values.back().cols());
  for (Eigen::Index l = count; l-- > 0;) {
    const auto& in = values[static_cast<size_t>(l)];
    Eigen::Map<Eigen::MatrixXf> g(gradient.data() + l * width * width, width, width);
    g.noalias() = errors * in.transpose();
    deeper.noalias() = layer(l).transpose() * errors;
    errors = (in.array() > 0.0F).select(deeper, 0.0F);
  }
}

}  // namespace ffdl::bench
