#include "layers/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "layers/network.h"

namespace layers {
namespace {

std::vector<float> random_floats(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

Batch batch_of(std::vector<float>& values, int rows) {
  return {values.data(), rows, static_cast<int>(values.size()) / rows};
}

// A layer with the data of one forward and backward pass. The differentiated scalar is the sum of
// the outputs with random weights.
struct Check {
  Check(Layer& layer_in, int rows_in)
      : layer(layer_in),
        rows(rows_in),
        parameters(random_floats(layer.parameters(), random)),
        input(random_floats(size(layer.inputs()), random)),
        output(size(layer.outputs())),
        output_gradient(random_floats(size(layer.outputs()), random)) {}

  std::size_t size(int columns) const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }

  double scalar() {
    layer.forward(parameters, batch_of(input, rows), batch_of(output, rows));
    double sum = 0;
    for (std::size_t i = 0; i < output.size(); ++i) sum += double{output[i]} * output_gradient[i];
    return sum;
  }

  // Compares `gradient` with central differences of scalar() at each of `values`.
  void expect_gradient(std::vector<float>& values, const std::vector<float>& gradient) {
    constexpr float kStep = 1e-2F;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = values[i];
      values[i] = value + kStep;
      const double above = scalar();
      values[i] = value - kStep;
      const double below = scalar();
      values[i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-3) << "element " << i;
    }
  }

  void run() {
    // Earlier values of the gradients must not matter: they are overwritten.
    std::vector<float> parameter_gradient(parameters.size(), 1e6F);
    std::vector<float> input_gradient(input.size(), -1e6F);
    scalar();
    layer.backward(parameters,
                   {.input = batch_of(input, rows),
                    .output = batch_of(output, rows),
                    .output_gradient = batch_of(output_gradient, rows),
                    .input_gradient = batch_of(input_gradient, rows)},
                   parameter_gradient);
    expect_gradient(parameters, parameter_gradient);
    expect_gradient(input, input_gradient);
  }

  Random random{7};
  Layer& layer;
  int rows;
  std::vector<float> parameters;
  std::vector<float> input;
  std::vector<float> output;
  std::vector<float> output_gradient;
};

TEST(Linear, GradientIsThatOfTheForwardPass) {
  for (const int inputs : {1, 3, 17}) {
    for (const int outputs : {1, 5, 10}) {
      for (const int rows : {1, 2, 7}) {
        SCOPED_TRACE(::testing::Message() << inputs << " x " << outputs << ", rows " << rows);
        Check(*linear(inputs, outputs), rows).run();
      }
    }
  }
}

TEST(Relu, GradientIsThatOfTheForwardPass) {
  Random random(11);
  auto layer = relu(13);
  Check check(*layer, 3);
  // Moves the inputs away from the kink, where central differences mean nothing.
  for (float& value : check.input) value += value < 0 ? -0.1F : 0.1F;
  check.run();
}

TEST(Conv2d, GradientIsThatOfTheForwardPass) {
  const Image images[] = {{1, 1, 1}, {5, 3, 2}, {4, 7, 3}};
  for (const Image& image : images) {
    for (const int kernel : {1, 3, 5}) {
      SCOPED_TRACE(::testing::Message() << image.height << " x " << image.width << " x "
                                        << image.channels << ", kernel " << kernel);
      Check(*conv2d({.input = image, .kernel_height = kernel, .kernel_width = 3, .channels = 3}), 2)
          .run();
    }
  }
}

TEST(Conv2d, WithoutPaddingTheOutputShrinks) {
  const Conv2dOptions options{.input = {5, 6, 2},
                              .kernel_height = 2,
                              .kernel_width = 3,
                              .channels = 3,
                              .zero_padded = false};
  const Image output = conv2d_output(options);
  EXPECT_EQ(output.height, 4);
  EXPECT_EQ(output.width, 4);
  Check(*conv2d(options), 3).run();
}

TEST(Conv2d, ComputesTheSumOverTheWindow) {
  auto layer = conv2d({.input = {3, 3, 1}});
  std::vector<float> parameters(10, 1.0F);  // nine weights and the bias
  std::vector<float> input{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> output(9);
  layer->forward(parameters, batch_of(input, 1), batch_of(output, 1));
  EXPECT_EQ(output, (std::vector<float>{13, 22, 17, 28, 46, 34, 25, 40, 29}));
}

TEST(MaxPool, GradientIsThatOfTheForwardPass) {
  const MaxPoolOptions options[] = {{.input = {4, 4, 1}},
                                    {.input = {5, 7, 3}},
                                    {.input = {1, 9, 2}, .window_height = 1, .window_width = 9}};
  for (const MaxPoolOptions& option : options) {
    SCOPED_TRACE(::testing::Message() << option.input.height << " x " << option.input.width);
    auto layer = max_pool(option);
    Check check(*layer, 2);
    // The values are 0.05 apart in random order, so that the step of the differences does not
    // change the largest.
    for (std::size_t i = 0; i < check.input.size(); ++i) {
      check.input[i] = 0.05F * static_cast<float>(i);
    }
    check.random.shuffle(std::span(check.input));
    check.run();
  }
}

TEST(SoftmaxCrossEntropy, GradientIsThatOfTheLoss) {
  Random random(3);
  const std::vector<int> labels{4, 0, 2};
  auto logits = random_floats(15, random);
  std::vector<float> gradient(15, 1e6F);
  softmax_cross_entropy(batch_of(logits, 3), labels, batch_of(gradient, 3));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float value = logits[i];
    logits[i] = value + 1e-2F;
    const float above = softmax_cross_entropy(batch_of(logits, 3), labels, {});
    logits[i] = value - 1e-2F;
    const float below = softmax_cross_entropy(batch_of(logits, 3), labels, {});
    logits[i] = value;
    EXPECT_NEAR(gradient[i], (above - below) / 2e-2F, 1e-3);
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  std::vector<float> logits{1000, -1000, 0};
  const std::vector<int> labels{0};
  EXPECT_EQ(softmax_cross_entropy(batch_of(logits, 1), labels, {}), 0.0F);
  EXPECT_EQ(count_correct(batch_of(logits, 1), labels), 1);
}

TEST(Network, LayersMustFitTogether) {
  std::vector<std::unique_ptr<Layer>> stack;
  stack.push_back(linear(3, 4));
  stack.push_back(linear(5, 2));
  const auto network = Network::stack(std::move(stack));
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.status().code(), ffdl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Network::stack({}).ok());
}

// Checks the whole chain: the gradient of the loss for the parameters of every layer.
TEST(Network, GradientIsThatOfTheLoss) {
  const Conv2dOptions convolution{.input = {5, 5, 1}, .channels = 2};
  const MaxPoolOptions pool{.input = conv2d_output(convolution)};
  std::vector<std::unique_ptr<Layer>> stack;
  stack.push_back(conv2d(convolution));
  stack.push_back(relu(conv2d_output(convolution).size()));
  stack.push_back(max_pool(pool));
  stack.push_back(linear(max_pool_output(pool).size(), 3));
  auto network = Network::stack(std::move(stack)).value();

  Random random(5);
  std::vector<float> weights(network.parameters());
  network.initialize(weights, random);
  auto input = random_floats(4 * 25, random);
  const std::vector<int> labels{0, 1, 2, 1};
  auto loss = [&] {
    return softmax_cross_entropy(network.forward(weights, batch_of(input, 4)), labels, {});
  };

  std::vector<float> logit_gradient(12);
  std::vector<float> gradient(weights.size(), 1e6F);
  const ConstBatch logits = network.forward(weights, batch_of(input, 4));
  softmax_cross_entropy(logits, labels, batch_of(logit_gradient, 4));
  network.backward(weights, batch_of(logit_gradient, 4), gradient);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float value = weights[i];
    weights[i] = value + 2e-3F;
    const float above = loss();
    weights[i] = value - 2e-3F;
    const float below = loss();
    weights[i] = value;
    EXPECT_NEAR(gradient[i], (above - below) / 4e-3F, 2e-3) << "parameter " << i;
  }
}

}  // namespace
}  // namespace layers
