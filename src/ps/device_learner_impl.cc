#include "ps/device_learner_impl.h"

#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "ps/learner_impl.h"
#include "ps/open_waiting.h"
#include "ps/pull.h"
#include "ps/transfer.h"

namespace ffdl {

DeviceLearner::Impl::Impl(std::unique_ptr<Learner> learner, std::unique_ptr<base::DeviceSide> side,
                          int device)
    : learner_(std::move(learner)), side_(std::move(side)), device_(device) {}

// The threads use everything here, and end when the copies that they have begun have ended.
DeviceLearner::Impl::~Impl() {
  learner_->impl_->end_transfer();
  const base::DeviceUse use(*side_, device_);
  push_stream_.reset();
  pull_stream_.reset();
  pins_.clear();
}

Result<std::unique_ptr<DeviceLearner>> DeviceLearner::Impl::attach(
    std::shared_ptr<const shm::Segment> segment, Time deadline, const DeviceLearnerOptions& options,
    std::unique_ptr<base::DeviceSide> side) {
  FFDL_ASSIGN_OR_RETURN(const int in_use, side->in_use());
  const int device = options.device < 0 ? in_use : options.device;
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Learner::Impl> attached,
                        Learner::Impl::attach(std::move(segment), deadline, options.learner));
  auto learner = std::unique_ptr<Learner>(new Learner(std::move(attached)));
  auto impl = std::unique_ptr<Impl>(new Impl(std::move(learner), std::move(side), device));
  FFDL_RETURN_IF_ERROR(impl->prepare());
  return std::unique_ptr<DeviceLearner>(new DeviceLearner(std::move(impl)));
}

Status DeviceLearner::Impl::prepare() {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_ASSIGN_OR_RETURN(push_stream_, side_->make_stream());
  FFDL_ASSIGN_OR_RETURN(pull_stream_, side_->make_stream());
  pin_memory();
  return {};
}

// Now, as pinning may hold up the device.
void DeviceLearner::Impl::pin_memory() {
  constexpr uint64_t kPage = 4096;
  const ps::Region& region = learner_->impl_->region();
  // What follows the weights in the segment begins at a page.
  const uint64_t bytes = (region.offsets().padded * sizeof(float) + kPage - 1) / kPage * kPage;
  landing_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  std::byte* const weights = reinterpret_cast<std::byte*>(region.weights());
  for (std::byte* const pages : {weights, landing_.get()}) {
    Result<base::SidePin> pinned = side_->pin(pages, bytes);
    if (!pinned.ok()) {
      not_pinned_ = pinned.status().message();
      base::log_warning(
          "learner {} copies from and to memory that is not pinned, which is slower: {}",
          learner_->slot(), not_pinned_);
      return;
    }
    pins_.push_back(std::move(pinned).value());
  }
}

// What `stream` was given comes before what `side_stream` will be given.
Status DeviceLearner::Impl::begin_after(base::DeviceStream stream, base::DeviceStream side_stream,
                                        const void* memory, std::string_view doing) const {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_ASSIGN_OR_RETURN(const bool held, side_->holds(memory));
  if (!held) {
    return base::invalid_argument(
        "{}: the memory is the host's; give memory of the device, or use the calls of learner()",
        doing);
  }
  return side_->follow(side_stream, stream);
}

// When it returns nothing of it is under way, whatever it returns.
Status DeviceLearner::Impl::copy_and_wait(void* to, const void* from, uint64_t bytes,
                                          base::DeviceStream stream) const {
  FFDL_RETURN_IF_ERROR(side_->copy(to, from, bytes, stream));
  return side_->wait(stream);
}

// Not into the slot: the copy engine of a process that was killed may go on for a moment, when
// somebody else has the slot already.
Status DeviceLearner::Impl::start_landing(std::span<const std::byte> gradient, uint64_t elements,
                                          base::DeviceStream stream,
                                          std::function<Result<PushResult>()> push_landed) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner_->impl_->transfer());
  FFDL_RETURN_IF_ERROR(learner_->impl_->check_size(elements));
  FFDL_RETURN_IF_ERROR(begin_after(stream, push_stream_.get(), gradient.data(), "start_push"));
  return transfer->start_push_by(
      [this, gradient, push_landed = std::move(push_landed)]() -> Result<PushResult> {
        FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
        FFDL_RETURN_IF_ERROR(
            copy_and_wait(landing_.get(), gradient.data(), gradient.size(), push_stream_.get()));
        return push_landed();
      });
}

Status DeviceLearner::Impl::start_push(std::span<const float> gradient, base::DeviceStream stream,
                                       std::span<const SampleRange> samples) {
  Learner::Impl& learner = *learner_->impl_;
  const std::span landed(reinterpret_cast<const float*>(landing_.get()), gradient.size());
  return start_landing(
      std::as_bytes(gradient), gradient.size(), stream,
      [&learner, landed, named = std::vector(samples.begin(), samples.end()),
       version = learner.base_version()] { return learner.push(landed, named, version); });
}

Status DeviceLearner::Impl::start_push_halves(GradientType type, std::span<const uint16_t> gradient,
                                              base::DeviceStream stream,
                                              std::span<const SampleRange> samples) {
  Learner::Impl& learner = *learner_->impl_;
  const std::span landed(reinterpret_cast<const uint16_t*>(landing_.get()), gradient.size());
  return start_landing(std::as_bytes(gradient), gradient.size(), stream,
                       [&learner, type, landed, named = std::vector(samples.begin(), samples.end()),
                        version = learner.base_version()] {
                         return learner.push_halves(type, landed, named, version);
                       });
}

Status DeviceLearner::Impl::start_pull(std::span<float> weights, base::DeviceStream stream,
                                       PullMode mode) {
  Learner::Impl& learner = *learner_->impl_;
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner.transfer());
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(learner.region(), weights.size()));
  FFDL_RETURN_IF_ERROR(begin_after(stream, pull_stream_.get(), weights.data(), "start_pull"));
  return transfer->start_pull_by([this, weights, mode] { return pull(weights, mode); });
}

// pull_weights() looks at a shard's sequence lock before the copy is given to the device, and again
// when the device has made it: only then is it known that nothing changed meanwhile.
Result<uint64_t> DeviceLearner::Impl::pull(std::span<float> weights, PullMode mode) const {
  FFDL_RETURN_IF_ERROR(side_->use(device_));  // this thread uses no other
  // A server that is asked for a pause must not pause for what the device computes before.
  FFDL_RETURN_IF_ERROR(side_->wait(pull_stream_.get()));
  const ps::Region& region = learner_->impl_->region();
  return ps::pull_weights(region, mode, [&](uint64_t begin, uint64_t count) {
    return copy_and_wait(weights.data() + begin, region.weights() + begin, count * sizeof(float),
                         pull_stream_.get());
  });
}

Result<uint64_t> DeviceLearner::Impl::finish_pull(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, learner_->impl_->transfer());
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, transfer->finish_pull_by(deadline));
  learner_->impl_->set_base_version(version);
  return version;
}

}  // namespace ffdl
