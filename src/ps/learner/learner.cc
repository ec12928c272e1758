#include "ffdl/ps/learner.h"

#include <unistd.h>

#include "base/errors.h"
#include "ps/learner/learner_impl.h"
#include "ps/segment/layout.h"
#include "ps/segment/open_waiting.h"
#include "ps/server/server_impl.h"

namespace ffdl {
namespace {

// Refuses a call while a push on the transfer thread owns the slot, until finish_push().
Status check_no_push_beside(const Learner::Impl& learner, std::string_view doing) {
  if (!learner.pushing_beside()) return {};
  return base::invalid_argument("{}: a start_push() is under way; finish_push() first", doing);
}

}  // namespace

Learner::Learner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Learner::~Learner() = default;

Result<std::unique_ptr<Learner>> Learner::attach(std::string_view name, Time deadline,
                                                 LearnerOptions options) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, ps::open_waiting(name, deadline));
  return Impl::attach(std::make_shared<const shm::Segment>(std::move(segment)), deadline, options);
}

// With a device maps the segment again, since several learners may share the server's mapping.
Result<std::unique_ptr<Learner>> Learner::attach(const ParameterServer& server, Time deadline,
                                                 LearnerOptions options) {
  const std::shared_ptr<const shm::Segment> shared = server.impl_->segment();
  if (!options.device) return Impl::attach(shared, deadline, options);
  FFDL_ASSIGN_OR_RETURN(
      shm::Segment segment,
      shm::Segment::open_of(getpid(), shared->fd(), shm::SegmentKind::kParameterServer,
                            ps::kLayoutVersion));
  return Impl::attach(std::make_shared<const shm::Segment>(std::move(segment)), deadline, options);
}

int Learner::slot() const { return impl_->slot(); }
uint64_t Learner::parameters() const { return impl_->region().config().parameters; }
uint32_t Learner::partitions() const { return impl_->region().config().partitions; }
DType Learner::gradient_type() const { return impl_->region().config().gradient_type; }
const std::string& Learner::not_pinned() const { return impl_->not_pinned(); }
uint64_t Learner::committed(uint32_t partition) const { return impl_->committed(partition); }

Result<uint64_t> Learner::pushed(uint32_t partition) const {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "get the pushed position"));
  return impl_->pushed(partition);
}

Result<uint64_t> Learner::ranges_left() const {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "get the number of ranges left"));
  return impl_->ranges_left();
}

Result<bool> Learner::hold(uint32_t partition) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "hold a partition"));
  return impl_->hold(partition);
}

Status Learner::let_go(uint32_t partition) { return impl_->let_go(partition); }

bool Learner::is_free(uint32_t partition) const { return impl_->is_free(partition); }
std::vector<Publication> Learner::publications() const { return impl_->publications(); }

void Learner::tell_publications(std::function<void(const Publication&)> told) {
  impl_->tell_publications(std::move(told));
}

Status Learner::rest_until(const std::function<bool()>& ready, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "rest"));
  return impl_->rest_until(ready, deadline);
}

Status Learner::begin_mini_batch(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "begin a mini-batch"));
  return impl_->begin_mini_batch(deadline);
}

Result<std::span<float>> Learner::gradient_slot(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "take the gradient slot"));
  return impl_->gradient_slot(deadline);
}

Result<PushResult> Learner::push(const Gradient& gradient, std::span<const SampleRange> samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push(gradient, samples, impl_->base_version());
}

Result<uint64_t> Learner::pull(std::span<float> weights, PullMode mode) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, impl_->pull(weights, mode));
  impl_->set_base_version(version);
  return version;
}

Result<uint64_t> Learner::pull_rows(std::span<const RowWeights> tables) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, impl_->pull_rows(tables));
  impl_->set_base_version(version);
  return version;
}

std::span<const float> Learner::live_weights() const {
  return {impl_->region().weights(), parameters()};
}

Status Learner::start_push(const Gradient& gradient, std::span<const SampleRange> samples,
                           void* stream) {
  return impl_->start_push(gradient, samples, stream);
}

Result<PushResult> Learner::finish_push(Time deadline) { return impl_->finish_push(deadline); }

Status Learner::start_pull(std::span<float> weights, PullMode mode, void* stream) {
  return impl_->start_pull(weights, mode, stream);
}

Status Learner::start_pull_rows(std::span<const RowWeights> tables, void* stream) {
  return impl_->start_pull_rows(tables, stream);
}

Result<uint64_t> Learner::finish_pull(Time deadline) { return impl_->finish_pull(deadline); }

Status Learner::flush(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "flush"));
  return impl_->flush(deadline);
}

Status Learner::detach(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "detach"));
  return impl_->detach(deadline);
}

LearnerStats Learner::stats() const { return impl_->stats(); }

}  // namespace ffdl
