#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nlc/device/batch_plan.h"
#include "nlc/device/gpu_model.h"
#include "nlc/model.h"
#include "support/status_matchers.h"

// Compares the GPU's classifier with the processor's.
namespace nlc {

// Expects each element within `part` of the largest one.
inline void expect_near(std::span<const float> ours, std::span<const float> theirs, float part) {
  ASSERT_EQ(ours.size(), theirs.size());
  float largest = 0;
  for (const float value : theirs) largest = std::max(largest, std::abs(value));
  std::size_t wrong = 0;
  while (wrong < ours.size() && std::abs(ours[wrong] - theirs[wrong]) <= part * largest) ++wrong;
  if (wrong < ours.size()) {
    FAIL() << "element " << wrong << " of " << ours.size() << " is " << ours[wrong]
           << " instead of " << theirs[wrong] << "; the largest is " << largest;
  }
}

// Returns features of sentences that share some words. Some features are dropped.
inline Gathered some_mini_batch(int texts, int labels, float dropped, uint64_t seed) {
  Gathered batch;
  layers::Random random(seed);
  for (int text = 0; text < texts; ++text) {
    std::string sentence = "what is left on my";
    for (uint64_t words = random.below(6); words > 0; --words) {
      sentence += " w" + std::to_string(random.below(20));
    }
    append_features(sentence, batch.features);
    batch.labels.push_back(static_cast<int>(random.below(static_cast<uint64_t>(labels))));
  }
  drop_features(dropped, random, batch.features);
  return batch;
}

// One network twice: the weights of a server and the model of each side. Both train by plain
// gradient descent.
class BothSides {
 public:
  BothSides(Gpu& gpu, const Libraries& libraries, uint32_t labels, uint32_t texts_max)
      : gpu_(gpu), host_(labels), host_weights_(host_.parameters()) {
    host_.initialize(host_weights_, 7);
    gpu_weights_ = host_weights_;
    auto made = GpuModel::create(gpu, libraries, {.labels = labels, .texts_max = texts_max});
    EXPECT_OK(made);
    if (made.ok()) model_ = std::move(made).value();
  }

  // Computes the loss and the gradients on both sides and compares them.
  void compute(const Gathered& batch) {
    ASSERT_NE(model_, nullptr);
    planner_.make(batch, plan_);
    ASSERT_OK(model_->upload(plan_));
    std::vector<float> rows;
    for (const uint64_t row : plan_.rows) {
      const auto from = gpu_weights_.begin() + static_cast<std::ptrdiff_t>(row * kWidth);
      rows.insert(rows.end(), from, from + kWidth);
    }
    const std::vector<float> head(gpu_weights_.begin() + host_.head_begin(), gpu_weights_.end());
    ASSERT_EQ(model_->rows().size(), rows.size());
    ASSERT_EQ(model_->head().size(), head.size());
    ASSERT_OK(give(rows, model_->rows().data()));
    ASSERT_OK(give(head, model_->head().data()));
    ASSERT_OK(model_->compute());
    row_gradients_.resize(rows.size());
    head_gradient_.resize(head.size());
    ASSERT_OK(take(model_->row_gradients(), row_gradients_));
    ASSERT_OK(take(model_->head_gradient(), head_gradient_));
    ASSERT_OK(gpu_.wait(model_->stream()));

    Model::Parameters parameters;
    host_.take(host_weights_, batch.features, parameters);
    const float loss = host_.gradient(batch.features, batch.labels, parameters, host_gradient_);
    EXPECT_NEAR(model_->loss(), loss, 1e-5);
  }

  // Adds up the gradients of features that share a row, because one row is expected here.
  void expect_same_gradients() {
    std::vector<float> rows(row_gradients_.size());
    for (std::size_t feature = 0; feature < plan_.place.size(); ++feature) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        rows[plan_.place[feature] * kWidth + i] += host_gradient_.rows[feature * kWidth + i];
      }
    }
    expect_near(row_gradients_, rows, 1e-5F);
    expect_near(head_gradient_, host_gradient_.head, 1e-5F);
  }

  void descend(const Gathered& batch, float rate) {
    const auto go = [rate](float& weight, float gradient) { weight -= rate * gradient; };
    const std::size_t head = host_.head_begin();
    for (std::size_t i = 0; i < head_gradient_.size(); ++i) {
      go(gpu_weights_[head + i], head_gradient_[i]);
      go(host_weights_[head + i], host_gradient_.head[i]);
    }
    for (std::size_t row = 0; row < plan_.rows.size(); ++row) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        go(gpu_weights_[plan_.rows[row] * kWidth + i], row_gradients_[row * kWidth + i]);
      }
    }
    for (std::size_t feature = 0; feature < batch.features.rows.size(); ++feature) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        go(host_weights_[batch.features.rows[feature] * kWidth + i],
           host_gradient_.rows[feature * kWidth + i]);
      }
    }
  }

  float loss() const { return model_->loss(); }

 private:
  ffdl::Status give(std::span<const float> from, float* to) {
    if (from.empty()) return {};
    return gpu_.copy(to, from.data(), from.size_bytes(), model_->stream());
  }
  ffdl::Status take(std::span<const float> from, std::vector<float>& to) {
    if (from.empty()) return {};
    return gpu_.copy(to.data(), from.data(), from.size_bytes(), model_->stream());
  }

  Gpu& gpu_;
  Model host_;
  std::vector<float> host_weights_;
  std::vector<float> gpu_weights_;
  std::unique_ptr<GpuModel> model_;
  BatchPlanner planner_{kTableRows};
  BatchPlan plan_;
  std::vector<float> row_gradients_;
  std::vector<float> head_gradient_;
  Model::Parameters host_gradient_;
};

// Uses sizes that are no multiple of anything, rows that texts share, and texts without a feature.
inline void expect_gradients_alike(Gpu& gpu, const Libraries& libraries) {
  for (const uint32_t labels : {2U, 5U, 151U}) {
    BothSides sides(gpu, libraries, labels, 17);
    for (const int texts : {1, 2, 3, 16, 17}) {
      for (const float dropped : {0.0F, 0.5F, 0.98F}) {
        SCOPED_TRACE(::testing::Message()
                     << texts << " texts of " << labels << " labels, " << dropped << " dropped");
        const Gathered batch = some_mini_batch(texts, static_cast<int>(labels), dropped,
                                               labels * 100U + static_cast<uint64_t>(texts));
        ASSERT_NO_FATAL_FAILURE(sides.compute(batch));
        ASSERT_NO_FATAL_FAILURE(sides.expect_same_gradients());
      }
    }
  }
}

// Makes the same steps on both sides, each from its own weights.
inline void expect_steps_alike(Gpu& gpu, const Libraries& libraries) {
  BothSides sides(gpu, libraries, 5, 8);
  float first = 0;
  for (int step = 0; step < 30; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    const Gathered batch = some_mini_batch(8, 5, 0.5F, 1000U + static_cast<unsigned>(step % 3));
    ASSERT_NO_FATAL_FAILURE(sides.compute(batch));
    sides.descend(batch, 0.5F);
    if (step == 0) first = sides.loss();
  }
  EXPECT_LT(sides.loss(), first / 2);
}

}  // namespace nlc
