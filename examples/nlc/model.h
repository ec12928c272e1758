#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "layers/layer.h"
#include "nlc/corpus.h"
#include "nlc/features.h"
#include "nlc/width.h"
#include "training/task.h"

namespace nlc {

// Sums the rows of a text's features in an embedding table. One linear layer, the head, computes a
// score for each label from the sum. Parameters: the table, 2^table_bits rows in order, then the
// head.
// Threads: one at a time.
class Model {
 public:
  explicit Model(std::size_t labels, int table_bits = kTableBits);

  std::size_t head_begin() const { return (std::size_t{1} << table_bits_) * kWidth; }
  std::size_t head_size() const { return head_->parameters(); }
  std::size_t parameters() const { return head_begin() + head_size(); }
  void initialize(std::span<float> weights, uint64_t seed) const;

  // The parameters that a batch needs: the row of each feature, in order, and the head.
  struct Parameters {
    std::vector<float> rows;
    std::vector<float> head;
  };
  // Takes the parameters of these weights that the batch needs.
  void take(std::span<const float> weights, const Features& batch, Parameters& parameters) const;

  // Computes the gradient of the mean loss over the batch, in the layout of its parameters, and
  // overwrites all of `gradient`. A row that several features share occurs several times, each with
  // its part. Returns the mean loss.
  float gradient(const Features& batch, std::span<const int> labels, const Parameters& parameters,
                 Parameters& gradient);

  training::Score evaluate(std::span<const float> weights, const Sentences& sentences);

 private:
  layers::ConstBatch forward(const Features& batch, const Parameters& parameters);

  const int table_bits_;
  std::unique_ptr<layers::Layer> head_;
  std::vector<float> texts_;  // the sums, text after text
  std::vector<float> text_gradients_;
  std::vector<float> logits_;
  std::vector<float> logit_gradients_;
};

}  // namespace nlc
