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

Transfer::Transfer(Learner::Impl& learner) : learner_(learner) {
  for (std::vector<float>& buffer : buffers_) buffer.resize(learner.region().config().parameters);
}

Status Transfer::start_pull(PullMode mode) {
  const bool started = pull_.start(
      [this, mode]() -> Result<uint64_t> { return learner_.pull(buffers_[filling_], mode); });
  if (started) return {};
  return base::invalid_argument("start_pull: one is under way; finish_pull() first");
}

Result<Learner::Pulled> Transfer::finish_pull(Time deadline) {
  std::optional<Result<uint64_t>> version = pull_.take(deadline);
  if (!version) return too_early("pull");
  if (!version->ok()) return version->status();
  const Learner::Pulled pulled{buffers_[filling_], version->value()};
  filling_ = 1 - filling_;
  return pulled;
}

Status Transfer::start_push(std::span<const float> gradient, SampleRange samples) {
  const bool started = push_.start([this, gradient, samples, version = learner_.base_version()] {
    return learner_.push(gradient, {&samples, 1}, version);
  });
  if (started) return {};
  return base::invalid_argument("start_push: one is under way; finish_push() first");
}

Result<PushResult> Transfer::finish_push(Time deadline) {
  std::optional<Result<PushResult>> pushed = push_.take(deadline);
  if (!pushed) return too_early("push");
  return std::move(*pushed);
}

}  // namespace ffdl::ps
