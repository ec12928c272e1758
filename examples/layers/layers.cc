#include "layers/layers.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace layers {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<Matrix>;
using ConstMap = Eigen::Map<const Matrix>;
using RowMap = Eigen::Map<Eigen::RowVectorXf>;
using ConstRowMap = Eigen::Map<const Eigen::RowVectorXf>;

Map matrix(Batch batch) { return {batch.data, batch.rows, batch.columns}; }
ConstMap matrix(ConstBatch batch) { return {batch.data, batch.rows, batch.columns}; }

// Returns the begin of the sample in row `row`.
template <class AnyBatch>
auto sample(const AnyBatch& batch, int row) {
  return batch.data + static_cast<std::ptrdiff_t>(row) * batch.columns;
}

// Initializes for ReLU (He): the variance of a layer's output stays that of its input. A bias, the
// last `outputs` parameters, starts at zero.
void initialize_affine(std::span<float> parameters, int inputs, int outputs, Random& random) {
  const float bound = std::sqrt(6.0F / static_cast<float>(inputs));
  const auto bias = parameters.last(static_cast<std::size_t>(outputs));
  for (float& value : parameters) value = random.uniform(-bound, bound);
  std::fill(bias.begin(), bias.end(), 0.0F);
}

// The weights and the bias of `output = input * weights + bias` in one span.
template <class MatrixMap, class VectorMap, class Float>
struct AffineView {
  AffineView(std::span<Float> parameters, int inputs, int outputs)
      : weights(parameters.data(), inputs, outputs),
        bias(parameters.data() + static_cast<std::ptrdiff_t>(inputs) * outputs, outputs) {}
  MatrixMap weights;
  VectorMap bias;
};
using Affine = AffineView<ConstMap, ConstRowMap, const float>;
using AffineGradient = AffineView<Map, RowMap, float>;

std::size_t affine_parameters(int inputs, int outputs) {
  return static_cast<std::size_t>(inputs + 1) * static_cast<std::size_t>(outputs);
}

class Linear final : public Layer {
 public:
  Linear(int inputs, int outputs) : inputs_(inputs), outputs_(outputs) {}

  int inputs() const override { return inputs_; }
  int outputs() const override { return outputs_; }
  std::size_t parameters() const override { return affine_parameters(inputs_, outputs_); }

  void initialize(std::span<float> parameters, Random& random) const override {
    initialize_affine(parameters, inputs_, outputs_, random);
  }

  void forward(std::span<const float> parameters, ConstBatch input, Batch output) override {
    const Affine affine(parameters, inputs_, outputs_);
    matrix(output).noalias() = matrix(input) * affine.weights;
    matrix(output).rowwise() += affine.bias;
  }

  void backward(std::span<const float> parameters, const BackwardPass& pass,
                std::span<float> parameter_gradient) override {
    const ConstMap output_gradient = matrix(pass.output_gradient);
    AffineGradient gradient(parameter_gradient, inputs_, outputs_);
    gradient.weights.noalias() = matrix(pass.input).transpose() * output_gradient;
    gradient.bias = output_gradient.colwise().sum();
    if (pass.input_gradient.data == nullptr) return;
    const Affine affine(parameters, inputs_, outputs_);
    matrix(pass.input_gradient).noalias() = output_gradient * affine.weights.transpose();
  }

 private:
  int inputs_;
  int outputs_;
};

class Relu final : public Layer {
 public:
  explicit Relu(int width) : width_(width) {}

  int inputs() const override { return width_; }
  int outputs() const override { return width_; }

  void forward(std::span<const float> /*parameters*/, ConstBatch input, Batch output) override {
    matrix(output) = matrix(input).cwiseMax(0.0F);
  }

  void backward(std::span<const float> /*parameters*/, const BackwardPass& pass,
                std::span<float> /*parameter_gradient*/) override {
    if (pass.input_gradient.data == nullptr) return;
    matrix(pass.input_gradient) =
        (matrix(pass.output).array() > 0.0F).select(matrix(pass.output_gradient).array(), 0.0F);
  }

 private:
  int width_;
};

// Copies each output pixel's window into a row of `patches_`, so that a convolution is a matrix
// product. Takes one sample at a time, so that the patches stay in the cache.
class Conv2d final : public Layer {
 public:
  explicit Conv2d(const Conv2dOptions& options)
      : options_(options),
        output_(conv2d_output(options)),
        patch_size_(options.kernel_height * options.kernel_width * options.input.channels),
        pad_rows_(options.zero_padded ? options.kernel_height / 2 : 0),
        pad_columns_(options.zero_padded ? options.kernel_width / 2 : 0),
        patches_(output_.height * output_.width, patch_size_),
        patch_gradients_(output_.height * output_.width, patch_size_) {}

  int inputs() const override { return options_.input.size(); }
  int outputs() const override { return output_.size(); }
  std::size_t parameters() const override {
    return affine_parameters(patch_size_, options_.channels);
  }

  void initialize(std::span<float> parameters, Random& random) const override {
    initialize_affine(parameters, patch_size_, options_.channels, random);
  }

  void forward(std::span<const float> parameters, ConstBatch input, Batch output) override {
    const Affine affine(parameters, patch_size_, options_.channels);
    for (int row = 0; row < input.rows; ++row) {
      gather_patches(sample(input, row));
      Map pixels(sample(output, row), patches_.rows(), options_.channels);
      pixels.noalias() = patches_ * affine.weights;
      pixels.rowwise() += affine.bias;
    }
  }

  void backward(std::span<const float> parameters, const BackwardPass& pass,
                std::span<float> parameter_gradient) override {
    const Affine affine(parameters, patch_size_, options_.channels);
    AffineGradient gradient(parameter_gradient, patch_size_, options_.channels);
    gradient.weights.setZero();
    gradient.bias.setZero();
    for (int row = 0; row < pass.input.rows; ++row) {
      const ConstMap pixels(sample(pass.output_gradient, row), patches_.rows(), options_.channels);
      gather_patches(sample(pass.input, row));
      gradient.weights.noalias() += patches_.transpose() * pixels;
      gradient.bias += pixels.colwise().sum();
      if (pass.input_gradient.data == nullptr) continue;
      patch_gradients_.noalias() = pixels * affine.weights.transpose();
      scatter_patches(sample(pass.input_gradient, row));
    }
  }

 private:
  // Calls visit(patch row, offset in it, offset in the image, floats) for every run of a patch that
  // is inside the image.
  template <class Visit>
  void for_each_run(Visit visit) const {
    const Image& image = options_.input;
    for (int y = 0; y < output_.height; ++y) {
      for (int x = 0; x < output_.width; ++x) {
        const int left = x - pad_columns_;
        const int first = std::max(left, 0);
        const int last = std::min(left + options_.kernel_width, image.width);
        for (int ky = 0; ky < options_.kernel_height; ++ky) {
          const int image_y = y - pad_rows_ + ky;
          if (image_y < 0 || image_y >= image.height) continue;
          visit(y * output_.width + x, (ky * options_.kernel_width + first - left) * image.channels,
                (image_y * image.width + first) * image.channels, (last - first) * image.channels);
        }
      }
    }
  }

  // Elements outside the image keep the zeros that the first call writes.
  void gather_patches(const float* image) {
    if (!padding_is_zero_) patches_.setZero();
    padding_is_zero_ = true;
    for_each_run([&](int row, int in_patch, int in_image, int count) {
      std::memcpy(patches_.row(row).data() + in_patch, image + in_image,
                  sizeof(float) * static_cast<std::size_t>(count));
    });
  }

  void scatter_patches(float* image) {
    std::fill_n(image, options_.input.size(), 0.0F);
    for_each_run([&](int row, int in_patch, int in_image, int count) {
      RowMap(image + in_image, count) +=
          ConstRowMap(patch_gradients_.row(row).data() + in_patch, count);
    });
  }

  Conv2dOptions options_;
  Image output_;
  int patch_size_;
  int pad_rows_;
  int pad_columns_;
  Matrix patches_;
  Matrix patch_gradients_;
  bool padding_is_zero_ = false;
};

class MaxPool final : public Layer {
 public:
  explicit MaxPool(const MaxPoolOptions& options)
      : options_(options), output_(max_pool_output(options)) {}

  int inputs() const override { return options_.input.size(); }
  int outputs() const override { return output_.size(); }

  void forward(std::span<const float> /*parameters*/, ConstBatch input, Batch output) override {
    for (int row = 0; row < input.rows; ++row) {
      const float* image = sample(input, row);
      float* pooled = sample(output, row);
      for_each_window(
          [&](int in_output, int corner) { pooled[in_output] = image[largest(image, corner)]; });
    }
  }

  void backward(std::span<const float> /*parameters*/, const BackwardPass& pass,
                std::span<float> /*parameter_gradient*/) override {
    if (pass.input_gradient.data == nullptr) return;
    matrix(pass.input_gradient).setZero();
    for (int row = 0; row < pass.input.rows; ++row) {
      const float* image = sample(pass.input, row);
      const float* pooled_gradient = sample(pass.output_gradient, row);
      float* image_gradient = sample(pass.input_gradient, row);
      for_each_window([&](int in_output, int corner) {
        image_gradient[largest(image, corner)] = pooled_gradient[in_output];
      });
    }
  }

 private:
  // Calls visit(index in the output, index of the window's first element in the image).
  template <class Visit>
  void for_each_window(Visit visit) const {
    const Image& image = options_.input;
    for (int y = 0; y < output_.height; ++y) {
      for (int x = 0; x < output_.width; ++x) {
        const int corner =
            (y * options_.window_height * image.width + x * options_.window_width) * image.channels;
        for (int channel = 0; channel < image.channels; ++channel) {
          visit((y * output_.width + x) * image.channels + channel, corner + channel);
        }
      }
    }
  }

  // Returns the index of the first largest element of a window.
  int largest(const float* image, int corner) const {
    int best = corner;
    for (int y = 0; y < options_.window_height; ++y) {
      for (int x = 0; x < options_.window_width; ++x) {
        const int at = corner + (y * options_.input.width + x) * options_.input.channels;
        if (image[at] > image[best]) best = at;
      }
    }
    return best;
  }

  MaxPoolOptions options_;
  Image output_;
};

}  // namespace

std::unique_ptr<Layer> linear(int inputs, int outputs) {
  return std::make_unique<Linear>(inputs, outputs);
}

std::unique_ptr<Layer> relu(int width) { return std::make_unique<Relu>(width); }

Image conv2d_output(const Conv2dOptions& options) {
  const Image& input = options.input;
  if (options.zero_padded) return {input.height, input.width, options.channels};
  return {input.height - options.kernel_height + 1, input.width - options.kernel_width + 1,
          options.channels};
}

std::unique_ptr<Layer> conv2d(const Conv2dOptions& options) {
  return std::make_unique<Conv2d>(options);
}

Image max_pool_output(const MaxPoolOptions& options) {
  return {options.input.height / options.window_height, options.input.width / options.window_width,
          options.input.channels};
}

std::unique_ptr<Layer> max_pool(const MaxPoolOptions& options) {
  return std::make_unique<MaxPool>(options);
}

}  // namespace layers
