#pragma once

#include <memory>

#include "layers/layer.h"

namespace layers {

// An image as one row: pixel after pixel, with the channels of a pixel adjacent.
struct Image {
  int height = 0;
  int width = 0;
  int channels = 1;

  int size() const { return height * width * channels; }
};

// output = input * weights + bias. Weights are inputs x outputs, row-major, then the bias.
std::unique_ptr<Layer> linear(int inputs, int outputs);

// output = max(0, input), element by element.
std::unique_ptr<Layer> relu(int width);

// A two-dimensional convolution (correlation) with stride 1. A text is an image of height 1.
struct Conv2dOptions {
  Image input;
  int kernel_height = 3;
  int kernel_width = 3;
  int channels = 1;         // of the output
  bool zero_padded = true;  // the output is as large as the input; needs an odd kernel
};
Image conv2d_output(const Conv2dOptions& options);
std::unique_ptr<Layer> conv2d(const Conv2dOptions& options);

// The largest value of each window of window_height x window_width, channel by channel. Windows do
// not overlap; rows and columns that fill no whole window are left out.
struct MaxPoolOptions {
  Image input;
  int window_height = 2;
  int window_width = 2;
};
Image max_pool_output(const MaxPoolOptions& options);
std::unique_ptr<Layer> max_pool(const MaxPoolOptions& options);

}  // namespace layers
