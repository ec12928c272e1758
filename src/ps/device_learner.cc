#include "ffdl/device_learner.h"

#include <unistd.h>

#include <utility>

#include "ps/device_learner_impl.h"
#include "ps/layout.h"
#include "ps/open_waiting.h"
#include "ps/server_impl.h"

namespace ffdl {

DeviceLearner::DeviceLearner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceLearner::~DeviceLearner() = default;

Result<std::unique_ptr<DeviceLearner>> DeviceLearner::attach(std::string_view name, Time deadline,
                                                             const DeviceLearnerOptions& options) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, ps::open_waiting(name, deadline));
  return Impl::attach(std::make_shared<const shm::Segment>(std::move(segment)), deadline, options,
                      base::gpu_side());
}

// Mapped once more: the server's own mapping may be that of several learners.
Result<std::unique_ptr<DeviceLearner>> DeviceLearner::attach(const ParameterServer& server,
                                                             Time deadline,
                                                             const DeviceLearnerOptions& options) {
  FFDL_ASSIGN_OR_RETURN(
      shm::Segment segment,
      shm::Segment::open_of(getpid(), server.impl_->segment()->fd(),
                            shm::SegmentKind::kParameterServer, ps::kLayoutVersion));
  return Impl::attach(std::make_shared<const shm::Segment>(std::move(segment)), deadline, options,
                      base::gpu_side());
}

Learner& DeviceLearner::learner() { return impl_->learner(); }
const Learner& DeviceLearner::learner() const { return impl_->learner(); }
const std::string& DeviceLearner::not_pinned() const { return impl_->not_pinned(); }

Status DeviceLearner::start_push(std::span<const float> gradient, void* stream,
                                 SampleRange samples) {
  return impl_->start_push(gradient, stream, {&samples, 1});
}

Status DeviceLearner::start_push_ranges(std::span<const float> gradient, void* stream,
                                        std::span<const SampleRange> samples) {
  return impl_->start_push(gradient, stream, samples);
}

Status DeviceLearner::start_push_halves(GradientType type, std::span<const uint16_t> gradient,
                                        void* stream, SampleRange samples) {
  return impl_->start_push_halves(type, gradient, stream, {&samples, 1});
}

Status DeviceLearner::start_push_ranges(GradientType type, std::span<const uint16_t> gradient,
                                        void* stream, std::span<const SampleRange> samples) {
  return impl_->start_push_halves(type, gradient, stream, samples);
}

Status DeviceLearner::start_push_sparse(const SparseGradient& gradient, void* stream,
                                        SampleRange samples) {
  return impl_->start_push_sparse(gradient, stream, {&samples, 1});
}

Result<PushResult> DeviceLearner::finish_push(Time deadline) {
  return impl_->learner().finish_push(deadline);
}

Status DeviceLearner::start_pull(std::span<float> weights, void* stream, PullMode mode) {
  return impl_->start_pull(weights, stream, mode);
}

Status DeviceLearner::start_pull_rows(std::span<const DeviceRows> tables, void* stream) {
  return impl_->start_pull_rows(tables, stream);
}

Result<uint64_t> DeviceLearner::finish_pull(Time deadline) { return impl_->finish_pull(deadline); }

}  // namespace ffdl
