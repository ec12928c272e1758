#include "nlc/model.h"

#include <algorithm>

#include "layers/layers.h"
#include "layers/network.h"

namespace nlc {
namespace {

constexpr float kFirstRowMax = 0.1F;

// Calls visit(feature, text) for every feature of the batch.
template <class Visit>
void for_each_feature(const Features& batch, Visit visit) {
  std::size_t feature = 0;
  for (std::size_t text = 0; text < batch.ends.size(); ++text) {
    for (; feature < batch.ends[text]; ++feature) visit(feature, text);
  }
}

// Computes to += factor * from over one row.
void add_row(float factor, const float* from, float* to) {
  for (int i = 0; i < kWidth; ++i) to[i] += factor * from[i];
}

}  // namespace

Model::Model(std::size_t labels, int table_bits)
    : table_bits_(table_bits), head_(layers::linear(kWidth, static_cast<int>(labels))) {}

void Model::initialize(std::span<float> weights, uint64_t seed) const {
  layers::Random random(seed);
  for (float& weight : weights.first(head_begin())) {
    weight = random.uniform(-kFirstRowMax, kFirstRowMax);
  }
  head_->initialize(weights.subspan(head_begin()), random);
}

layers::ConstBatch Model::forward(const Features& batch, const Parameters& parameters) {
  const layers::Batch texts = layers::batch_in(texts_, batch.texts(), kWidth);
  std::fill(texts_.begin(), texts_.end(), 0.0F);
  for_each_feature(batch, [&](std::size_t feature, std::size_t text) {
    add_row(batch.factors[feature], &parameters.rows[feature * kWidth], &texts_[text * kWidth]);
  });
  const layers::Batch logits = layers::batch_in(logits_, batch.texts(), head_->outputs());
  head_->forward(parameters.head, texts, logits);
  return logits;
}

float Model::gradient(const Features& batch, std::span<const int> labels,
                      const Parameters& parameters, Parameters& gradient) {
  const layers::ConstBatch logits = forward(batch, parameters);
  const layers::Batch logit_gradient =
      layers::batch_in(logit_gradients_, batch.texts(), logits.columns);
  const float loss = layers::softmax_cross_entropy(logits, labels, logit_gradient);

  gradient.head.resize(head_size());
  const layers::BackwardPass pass{
      .input = layers::ConstBatch(texts_.data(), logits.rows, kWidth),
      .output = logits,
      .output_gradient = logit_gradient,
      .input_gradient = layers::batch_in(text_gradients_, batch.texts(), kWidth)};
  head_->backward(parameters.head, pass, gradient.head);

  gradient.rows.assign(batch.rows.size() * kWidth, 0.0F);
  for_each_feature(batch, [&](std::size_t feature, std::size_t text) {
    add_row(batch.factors[feature], &text_gradients_[text * kWidth],
            &gradient.rows[feature * kWidth]);
  });
  return loss;
}

void Model::take(std::span<const float> weights, const Features& batch,
                 Parameters& parameters) const {
  parameters.rows.clear();
  for (const uint64_t row : batch.rows) {
    const auto values = weights.subspan(row * kWidth, kWidth);
    parameters.rows.insert(parameters.rows.end(), values.begin(), values.end());
  }
  const auto head = weights.subspan(head_begin());
  parameters.head.assign(head.begin(), head.end());
}

training::Score Model::evaluate(std::span<const float> weights, const Sentences& sentences) {
  constexpr std::size_t kBatch = 64;
  Parameters parameters;
  Features batch;
  training::Score sum;
  for (std::size_t begin = 0; begin < sentences.size(); begin += kBatch) {
    const std::size_t size = std::min(kBatch, sentences.size() - begin);
    batch.clear();
    for (std::size_t i = begin; i < begin + size; ++i) {
      append_features(sentences.texts[i], batch, table_bits_);
    }
    take(weights, batch, parameters);
    const layers::ConstBatch logits = forward(batch, parameters);
    const auto labels = std::span(sentences.labels).subspan(begin, size);
    sum.loss += layers::softmax_cross_entropy(logits, labels, {}) * static_cast<float>(size);
    sum.accuracy += static_cast<float>(layers::count_correct(logits, labels));
  }
  const auto texts = static_cast<float>(sentences.size());
  return {.loss = sum.loss / texts, .accuracy = sum.accuracy / texts};
}

}  // namespace nlc
