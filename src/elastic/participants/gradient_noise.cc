#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_records.h"
#include "base/device_side.h"
#include "base/errors.h"
#include "base/half_kernels.h"
#include "base/log.h"
#include "elastic/participants/gradient_noise_of.h"
#include "elastic/participants/measure_noise.h"
#include "elastic/state/user_memory.h"
#include "elastic/step/device_norm.h"
#include "elastic/step/squared_norm.h"

namespace ffdl {
namespace {

constexpr std::string_view kMagic = "ffdlgns1";

Status check(const GradientNoiseOptions& options) {
  for (const Buffer& buffer : options.gradients) {
    if (base::is_floating(buffer.dtype)) continue;
    return base::invalid_argument(
        "measure the noise of gradients: gradients of {} have no norm; use a floating point type",
        to_string(buffer.dtype));
  }
  if (options.interval == 0) {
    return base::invalid_argument(
        "measure the noise of gradients: 'interval' is 0; give steps from 1 on");
  }
  if (options.block_stride == 0) {
    return base::invalid_argument(
        "measure the noise of gradients: 'block_stride' is 0; give 1 to read all blocks");
  }
  if (!(options.smoothing >= 0 && options.smoothing < 1)) {
    return base::invalid_argument(
        "measure the noise of gradients: 'smoothing' is {}; give a number from 0 to below 1",
        options.smoothing);
  }
  if (options.gradients.empty()) {
    return base::invalid_argument(
        "measure the noise of gradients: there are none; give those of the session");
  }
  return {};
}

class MeasuredNoise final : public GradientNoise {
 public:
  explicit MeasuredNoise(const GradientNoiseOptions& options) : options_(options) {}

  Status choose_side(base::DeviceSide* devices) {
    FFDL_ASSIGN_OR_RETURN(chosen_, base::choose_gpu(options_.device, devices));
    if (!gpu()) return {};
    FFDL_ASSIGN_OR_RETURN(auto norm, elastic::DeviceNorm::create(gpu()));
    on_gpu_.emplace(std::move(norm));
    return {};
  }
  bool reads_gradients() const override { return true; }
  bool reads_gradients_on_device() const override { return on_gpu_.has_value(); }
  Status life_status() const override { return standing_; }

  NoiseScale noise_scale() const override { return average_.read(); }

  size_t record_bytes() const override { return sizeof(double); }
  void write_record(std::span<std::byte> record) override {
    const bool is_read = is_due(step_ + 1) && !is_alone_;
    const double norm = is_read ? squared_norm() : 0;
    std::memcpy(record.data(), &norm, sizeof norm);
    mean_norm_ = std::nan("");  // a step that is not applied is not measured
    pair_.reset();
  }

  void averaged() override {
    pair_.reset();
    if (is_due(step_ + 1)) {
      mean_norm_ = squared_norm();
      if (copy_ && copy_->step == step_) {
        pair_ = {copy_->samples, squared_distance(copy_->buffers)};
      }
    }
    if (is_alone_ && is_due(step_ + 2)) keep_copy();
  }

  void applied(uint64_t step, const StepRecords& records) override {
    step_ = step;
    if (is_due(step)) {
      if (const auto sample = measure(records)) average_.add(*sample, options_.smoothing);
    }
    if (copy_ && copy_->step == step) copy_->samples = records.samples(0);
  }

  void stable(uint64_t /*step*/) override {}

  void world_changed(const World& world) override {
    is_alone_ = world.size() == 1;
    copy_.reset();
    pair_.reset();
  }

  std::vector<std::byte> save() const override {
    base::ByteWriter out(kMagic);
    out.number(step_);
    out.number(average_.measurements);
    for (const double value : {average_.variance, average_.squared_norm, average_.weight}) {
      out.number(std::bit_cast<uint64_t>(value));
    }
    const std::string text = std::move(out).finish();
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }

  Status restore(std::span<const std::byte> bytes) override {
    base::ByteReader in({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kMagic);
    const uint64_t step = in.number();
    elastic::NoiseAverage average;
    average.measurements = in.number();
    for (double* value : {&average.variance, &average.squared_norm, &average.weight}) {
      *value = std::bit_cast<double>(in.number());
    }
    if (!in.problem().empty()) {
      return base::make_error(StatusCode::kCorrupt,
                              "restore the noise of gradients: {}; restore what a GradientNoise "
                              "has saved",
                              in.problem());
    }
    step_ = step;
    average_ = average;
    return {};
  }

 private:
  bool is_due(uint64_t step) const { return step % options_.interval == 0; }
  // Selects the blocks of the step in progress: equal at all members, and for their mean.
  elastic::BlockSample blocks() const { return {options_.block_stride, step_ + 1}; }

  std::optional<elastic::NoiseSample> measure(const StepRecords& records) const {
    if (is_alone_) {
      if (!pair_ || pair_->samples == 0 || pair_->samples != records.samples(0)) return {};
      return elastic::noise_of_pair(pair_->samples, mean_norm_, pair_->squared_distance);
    }
    std::vector<elastic::Contribution> parts;
    for (int rank = 0; rank < records.size(); ++rank) {
      elastic::Contribution part = {records.samples(rank), 0};
      std::memcpy(&part.squared_norm, records.of(rank).data(), sizeof part.squared_norm);
      parts.push_back(part);
    }
    return elastic::noise_of_parts(parts, mean_norm_);
  }

  const base::Gpu& gpu() const { return chosen_.gpu; }
  double squared_norm() {
    if (!on_gpu_) return elastic::squared_norm(options_.gradients, blocks());
    return checked(on_gpu_->squared_norm(options_.gradients, blocks()));
  }
  double squared_distance(std::span<const Buffer> other) {
    if (!on_gpu_) return elastic::squared_distance(options_.gradients, other, blocks());
    return checked(on_gpu_->squared_distance(options_.gradients, other, blocks()));
  }
  // Returns NaN for a failed measurement, so that no member gets a result.
  double checked(const Result<double>& norm) {
    if (norm.ok()) return *norm;
    standing_ = Status(norm.status()).with_context("measure the noise of gradients");
    return std::nan("");
  }

  // Copies the gradients of the step in progress. The memory is reused for the next step.
  void keep_copy() {
    Copy copy = copy_ ? std::move(*copy_) : Copy{};
    copy_.reset();
    copy.step = step_ + 1;
    copy.buffers = options_.gradients;
    const Status made = fill(copy);
    if (made.ok()) {
      copy_ = std::move(copy);
    } else if (!std::exchange(is_copy_missed_, true)) {
      base::log_warning(
          "measure the noise of gradients: {}; no copy of them is kept, and nothing is measured "
          "while this member is alone",
          made.message());
    }
  }

  struct Copy {
    uint64_t step = 0;
    uint64_t samples = 0;
    std::vector<Buffer> buffers{};
    std::vector<std::byte> memory{};  // for gradients in host memory
    base::SideMemory on_gpu{};
  };

  Result<std::byte*> room_for(Copy& copy) const {
    const uint64_t bytes = elastic::bytes_of(copy.buffers);
    if (!gpu()) {
      copy.memory.resize(bytes);
      return copy.memory.data();
    }
    if (!copy.on_gpu) {
      FFDL_ASSIGN_OR_RETURN(copy.on_gpu, gpu().allocate(std::max<uint64_t>(bytes, 1)));
    }
    return copy.on_gpu.get();
  }
  // Copies the gradients that its buffers refer to into its memory, and points the buffers there.
  Status fill(Copy& copy) const {
    FFDL_ASSIGN_OR_RETURN(std::byte * to, room_for(copy));
    for (Buffer& buffer : copy.buffers) {
      const uint64_t length = elastic::bytes_of(buffer);
      if (length > 0 && gpu()) {
        FFDL_RETURN_IF_ERROR(gpu().copy(to, buffer.data, length));
      } else if (length > 0) {
        std::memcpy(to, buffer.data, length);
      }
      buffer.data = to;
      to += length;
    }
    return {};
  }

  struct Pair {
    uint64_t samples = 0;
    double squared_distance = 0;
  };

  const GradientNoiseOptions options_;
  base::ChosenGpu chosen_;
  std::optional<elastic::DeviceNorm> on_gpu_;
  Status standing_;
  bool is_alone_ = false;
  bool is_copy_missed_ = false;  // logged once
  // Equal at all members:
  uint64_t step_ = 0;
  elastic::NoiseAverage average_;
  // For the step in progress:
  double mean_norm_ = 0;
  std::optional<Pair> pair_;  // this step and the one before
  std::optional<Copy> copy_;  // of this world, while this member is alone
};

}  // namespace

namespace elastic {

Result<std::unique_ptr<GradientNoise>> gradient_noise_of(const GradientNoiseOptions& options,
                                                         base::DeviceSide* devices) {
  FFDL_RETURN_IF_ERROR(check(options));
  auto noise = std::make_unique<MeasuredNoise>(options);
  FFDL_RETURN_IF_ERROR(
      noise->choose_side(devices).with_context("measure the noise of gradients on a GPU"));
  return std::unique_ptr<GradientNoise>(std::move(noise));
}

}  // namespace elastic

Result<std::unique_ptr<GradientNoise>> GradientNoise::create(const GradientNoiseOptions& options) {
  return elastic::gradient_noise_of(options, nullptr);
}

}  // namespace ffdl
