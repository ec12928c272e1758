#include "ffdl/learner.h"

#include "base/errors.h"
#include "ps/learner_impl.h"
#include "ps/open_waiting.h"
#include "ps/server_impl.h"
#include "ps/transfer.h"

namespace ffdl {
namespace {

// A push on the transfer thread owns the slot until finish_push().
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
  auto shared = std::make_shared<const shm::Segment>(std::move(segment));
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                        Impl::attach(std::move(shared), deadline, options));
  return std::unique_ptr<Learner>(new Learner(std::move(impl)));
}

Result<std::unique_ptr<Learner>> Learner::attach(const ParameterServer& server, Time deadline,
                                                 LearnerOptions options) {
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                        Impl::attach(server.impl_->segment(), deadline, options));
  return std::unique_ptr<Learner>(new Learner(std::move(impl)));
}

int Learner::slot() const { return impl_->slot(); }
uint64_t Learner::parameters() const { return impl_->region().config().parameters; }
uint32_t Learner::partitions() const { return impl_->region().config().partitions; }
GradientType Learner::gradient_type() const { return impl_->region().config().gradient_type; }
uint64_t Learner::committed(uint32_t partition) const { return impl_->committed(partition); }

Result<uint64_t> Learner::pushed(uint32_t partition) const {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "ask what is pushed"));
  return impl_->pushed(partition);
}

Result<uint64_t> Learner::ranges_left() const {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "ask how many ranges are left"));
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

Result<PushResult> Learner::push(SampleRange samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push_slot({&samples, 1});
}

Result<PushResult> Learner::push(std::span<const float> gradient, SampleRange samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push(gradient, {&samples, 1}, impl_->base_version());
}

Result<PushResult> Learner::push_ranges(std::span<const float> gradient,
                                        std::span<const SampleRange> samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push(gradient, samples, impl_->base_version());
}

Result<PushResult> Learner::push_ranges(std::span<const SampleRange> samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push_slot(samples);
}

Result<PushResult> Learner::push_sparse(const SparseGradient& gradient, SampleRange samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push_sparse(gradient, {&samples, 1}, impl_->base_version());
}

Result<PushResult> Learner::push_halves(GradientType type, std::span<const uint16_t> gradient,
                                        SampleRange samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push_halves(type, gradient, {&samples, 1}, impl_->base_version());
}

Result<PushResult> Learner::push_ranges(GradientType type, std::span<const uint16_t> gradient,
                                        std::span<const SampleRange> samples) {
  FFDL_RETURN_IF_ERROR(check_no_push_beside(*impl_, "push"));
  return impl_->push_halves(type, gradient, samples, impl_->base_version());
}

Result<uint64_t> Learner::pull(std::span<float> weights, PullMode mode) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, impl_->pull(weights, mode));
  impl_->set_base_version(version);
  return version;
}

Result<uint64_t> Learner::pull_rows(uint64_t table, uint64_t row_size,
                                    std::span<const uint64_t> rows, std::span<float> to) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, impl_->pull_rows(table, row_size, rows, to));
  impl_->set_base_version(version);
  return version;
}

std::span<const float> Learner::live_weights() const {
  return {impl_->region().weights(), parameters()};
}

Status Learner::start_pull(PullMode mode) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, impl_->transfer());
  return transfer->start_pull(mode);
}

Result<Learner::Pulled> Learner::finish_pull(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, impl_->transfer());
  FFDL_ASSIGN_OR_RETURN(const Pulled pulled, transfer->finish_pull(deadline));
  impl_->set_base_version(pulled.version);
  return pulled;
}

Status Learner::start_push(std::span<const float> gradient, SampleRange samples) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, impl_->transfer());
  return transfer->start_push(gradient, samples);
}

Result<PushResult> Learner::finish_push(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(ps::Transfer* const transfer, impl_->transfer());
  return transfer->finish_push(deadline);
}

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
