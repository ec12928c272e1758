#include "ps/transfer.h"

#include "base/errors.h"
#include "ps/learner_impl.h"

namespace ffdl::ps {
namespace {

Status too_early(std::string_view what) {
  return base::make_error(StatusCode::kTimeout,
                          "finish_{}: it is not done, or none was started; wait longer", what);
}

}  // namespace

Status Transfer::start_pull(PullMode mode) {
  for (std::vector<float>& buffer : buffers_) buffer.resize(learner_.region().config().parameters);
  return start_pull_by([this, mode] { return learner_.pull(buffers_[filling_], mode); });
}

Status Transfer::start_pull_by(std::function<Result<uint64_t>()> pull) {
  if (pull_.start(std::move(pull))) return {};
  return base::invalid_argument("start_pull: one is under way; finish_pull() first");
}

Result<Learner::Pulled> Transfer::finish_pull(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(const uint64_t version, finish_pull_by(deadline));
  const Learner::Pulled pulled{buffers_[filling_], version};
  filling_ = 1 - filling_;
  return pulled;
}

Result<uint64_t> Transfer::finish_pull_by(Time deadline) {
  std::optional<Result<uint64_t>> version = pull_.take(deadline);
  if (!version) return too_early("pull");
  return std::move(*version);
}

Status Transfer::start_push(std::span<const float> gradient, SampleRange samples) {
  return start_push_by([this, gradient, samples, version = learner_.base_version()] {
    return learner_.push(gradient, {&samples, 1}, version);
  });
}

Status Transfer::start_push_by(std::function<Result<PushResult>()> push) {
  if (push_.start(std::move(push))) return {};
  return base::invalid_argument("start_push: one is under way; finish_push() first");
}

Result<PushResult> Transfer::finish_push(Time deadline) {
  std::optional<Result<PushResult>> pushed = push_.take(deadline);
  if (!pushed) return too_early("push");
  return std::move(*pushed);
}

}  // namespace ffdl::ps
