#include "digits/dataset.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>

#include "layers/random.h"

namespace digits {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;

constexpr int kPixelMax = 16;
constexpr uint64_t kSplitSeed = 2016;
constexpr std::size_t kFileBytesMax = 64U << 20U;  // the real file has 0.5 MB, unpacked

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};

// Returns the whole file, unpacked.
Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return Status(StatusCode::kNotFound,
                  fmt::format("open digits '{}': {}; name scikit-learn's digits.csv.gz", path,
                              std::strerror(errno)));
  }
  std::string text;
  std::array<char, 1U << 16U> chunk{};
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), chunk.size())) > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > kFileBytesMax) {
      return Status(StatusCode::kCorrupt,
                    fmt::format("read digits '{}': more than {} bytes; is this the right file?",
                                path, kFileBytesMax));
    }
  }
  int error = Z_OK;
  const std::string_view reason = gzerror(file.get(), &error);
  if (error != Z_OK) {
    const auto* observed = error == Z_BUF_ERROR ? "the file ends too early" : reason.data();
    return Status(StatusCode::kCorrupt, fmt::format("read digits '{}': {} after {} bytes of text; "
                                                    "copy it again",
                                                    path, observed, text.size()));
  }
  return text;
}

// Removes the next number from the front of `line`. Returns false if it does not start with a
// number in [0, most].
bool take_number(std::string_view& line, int most, int& number) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || number < 0 || number > most) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return true;
}

bool take_comma(std::string_view& line) {
  if (!line.starts_with(',')) return false;
  line.remove_prefix(1);
  return true;
}

// Returns an empty text if the line is valid, else the error.
std::string parse_line(std::string_view line, Samples& samples) {
  std::array<float, kPixels> image{};
  for (int i = 0; i < kPixels; ++i) {
    int pixel = 0;
    if (!take_number(line, kPixelMax, pixel) || !take_comma(line)) {
      return fmt::format("value {} is not a pixel from 0 to {}", i + 1, kPixelMax);
    }
    image[static_cast<std::size_t>(i)] = static_cast<float>(pixel) * (2.0F / kPixelMax) - 1.0F;
  }
  int label = 0;
  if (!take_number(line, kClasses - 1, label)) {
    return fmt::format("value {} is not a label from 0 to {}", kPixels + 1, kClasses - 1);
  }
  if (!line.empty()) return fmt::format("more than {} values", kPixels + 1);
  samples.append(image, label);
  return "";
}

}  // namespace

void Samples::append(std::span<const float> image, int label) {
  pixels.insert(pixels.end(), image.begin(), image.end());
  labels.push_back(label);
}

void Samples::clear() {
  pixels.clear();
  labels.clear();
}

Result<Samples> load_samples(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  Samples samples;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string problem = parse_line(line, samples);
    if (problem.empty()) continue;
    return Status(StatusCode::kCorrupt,
                  fmt::format("read digits '{}': line {}: {}; name scikit-learn's digits.csv.gz",
                              path, number, problem));
  }
  if (samples.size() == 0) {
    return Status(
        StatusCode::kCorrupt,
        fmt::format("read digits '{}': no lines; name scikit-learn's digits.csv.gz", path));
  }
  return samples;
}

Result<Split> split_samples(const Samples& all) {
  constexpr std::size_t kSamplesMin = 100;
  if (all.size() < kSamplesMin) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("split the digits: {} samples; give at least {}", all.size(), kSamplesMin));
  }
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0U);
  layers::Random(kSplitSeed).shuffle(std::span(order));

  Split split;
  const std::size_t train = all.size() * 7 / 10;
  const std::size_t validation = all.size() / 10;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Samples& part = i < train                ? split.train
                    : i < train + validation ? split.validation
                                             : split.test;
    part.append(all.image(order[i]), all.labels[order[i]]);
  }
  return split;
}

}  // namespace digits
