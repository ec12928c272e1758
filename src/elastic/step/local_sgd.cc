#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "ffdl/session.h"

namespace ffdl {

// The arrays hold all weights, one after the other.
struct LocalSgd::Impl {
  LocalSgdOptions options;
  std::vector<Buffer> weights;
  std::vector<float> outer_weights{};
  std::vector<float> momentum{};
  std::vector<float> gradient{};

  // Appends a view of the array for each of the weights.
  void append_views(std::vector<float>& array, std::vector<Buffer>& views) const {
    size_t begin = 0;
    for (const Buffer& one : weights) {
      views.push_back({array.data() + begin, one.count, DType::kFloat32});
      begin += one.count;
    }
  }
};

namespace {

Status check_local_sgd(const std::vector<Buffer>& weights, const LocalSgdOptions& options) {
  if (!(options.learning_rate > 0) || !std::isfinite(options.learning_rate)) {
    return base::invalid_argument(
        "train with local steps: the outer learning_rate is {}; give one above 0, such as 0.7",
        options.learning_rate);
  }
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    return base::invalid_argument(
        "train with local steps: the outer momentum is {}; give one from 0 to below 1",
        options.momentum);
  }
  if (options.nesterov && options.momentum == 0) {
    return base::invalid_argument(
        "train with local steps: nesterov without momentum; give a momentum, or leave nesterov "
        "out");
  }
  uint64_t count = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].dtype != DType::kFloat32) {
      return base::invalid_argument(
          "train with local steps: array {} of the weights is of {}; give float32", i,
          to_string(weights[i].dtype));
    }
    if (weights[i].count > 0 && weights[i].data == nullptr) {
      return base::invalid_argument(
          "train with local steps: array {} of the weights is a null pointer to {} elements; give "
          "its memory",
          i, weights[i].count);
    }
    count += weights[i].count;
  }
  if (count == 0) {
    return base::invalid_argument("train with local steps: there are no weights; give the model's");
  }
  return {};
}

}  // namespace

LocalSgd::LocalSgd(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalSgd::~LocalSgd() = default;

Result<std::unique_ptr<LocalSgd>> LocalSgd::create(std::vector<Buffer> weights,
                                                   const LocalSgdOptions& options) {
  FFDL_RETURN_IF_ERROR(check_local_sgd(weights, options));
  size_t count = 0;
  for (const Buffer& one : weights) count += one.count;
  auto impl = std::make_unique<Impl>(Impl{options, std::move(weights)});
  impl->outer_weights.resize(count);
  impl->momentum.resize(count);
  impl->gradient.resize(count);
  float* outer = impl->outer_weights.data();
  for (const Buffer& one : impl->weights) {
    if (one.count > 0) std::memcpy(outer, one.data, one.count * sizeof(float));
    outer += one.count;
  }
  return std::unique_ptr<LocalSgd>(new LocalSgd(std::move(impl)));
}

std::vector<Buffer> LocalSgd::state() {
  std::vector<Buffer> views;
  impl_->append_views(impl_->outer_weights, views);
  impl_->append_views(impl_->momentum, views);
  return views;
}

std::vector<Buffer> LocalSgd::gradients() {
  return {{impl_->gradient.data(), impl_->gradient.size(), DType::kFloat32}};
}

void LocalSgd::apply() {
  const LocalSgdOptions& options = impl_->options;
  const size_t count = impl_->outer_weights.size();
  float* weights = impl_->outer_weights.data();
  float* momentum = impl_->momentum.data();
  const float* gradient = impl_->gradient.data();
  for (size_t i = 0; i < count; ++i) {
    momentum[i] = options.momentum * momentum[i] + gradient[i];
    const float direction =
        options.nesterov ? gradient[i] + options.momentum * momentum[i] : momentum[i];
    weights[i] -= options.learning_rate * direction;
  }
}

void LocalSgd::begin_round() {
  const float* outer = impl_->outer_weights.data();
  for (const Buffer& one : impl_->weights) {
    if (one.count > 0) std::memcpy(one.data, outer, one.count * sizeof(float));
    outer += one.count;
  }
}

void LocalSgd::end_round() {
  const float* outer = impl_->outer_weights.data();
  float* gradient = impl_->gradient.data();
  for (const Buffer& one : impl_->weights) {
    const auto* bytes = static_cast<const std::byte*>(one.data);
    for (uint64_t i = 0; i < one.count; ++i) {
      float weight;
      std::memcpy(&weight, bytes + i * sizeof weight, sizeof weight);
      gradient[i] = outer[i] - weight;
    }
    outer += one.count;
    gradient += one.count;
  }
}

}  // namespace ffdl
