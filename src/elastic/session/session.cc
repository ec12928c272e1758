#include "ffdl/session.h"

#include "base/errors.h"
#include "base/half_kernels.h"
#include "elastic/checkpoint/state_shares.h"
#include "elastic/session/session_impl.h"

namespace ffdl {
namespace {

Status check(const SessionOptions& options, Trainable& trainable) {
  for (const Buffer& buffer : trainable.gradients()) {
    if (base::is_floating(buffer.dtype)) continue;
    return base::invalid_argument(
        "open a session as '{}': gradients of {} have no mean; use a floating point type",
        options.self.id, to_string(buffer.dtype));
  }
  for (const StepParticipant* participant : options.participants) {
    if (participant != nullptr) continue;
    return base::invalid_argument("open a session as '{}': a participant is a null pointer",
                                  options.self.id);
  }
  if (options.micro_batch_samples == 0) {
    return base::invalid_argument(
        "open a session as '{}': micro_batch_samples is 0; give the number of samples of a whole "
        "micro-batch",
        options.self.id);
  }
  if (options.micro_batch_shares && options.bucket_bytes > 0) {
    return base::invalid_argument(
        "open a session as '{}': micro_batch_shares and bucket_bytes are both set; leave one of "
        "them out",
        options.self.id);
  }
  const bool has_whole_gradients = !options.micro_batch_shares && options.bucket_bytes == 0;
  for (const StepParticipant* participant : options.participants) {
    if (has_whole_gradients || !participant->reads_gradients()) continue;
    return base::invalid_argument(
        "open a session as '{}': {} is set, and a participant reads whole gradients, as "
        "GradientNoise does; leave one of them out",
        options.self.id, options.bucket_bytes > 0 ? "bucket_bytes" : "micro_batch_shares");
  }
  const CheckpointOptions& checkpoints = options.checkpoints;
  if (!checkpoints.folder.empty()) {
    const auto state = trainable.state();
    FFDL_RETURN_IF_ERROR(elastic::describe_tensors(state, checkpoints.names).status());
  }
  if (checkpoints.keep_last < 1 || checkpoints.keep_best < 0 || checkpoints.every < Duration{}) {
    return base::invalid_argument(
        "open a session as '{}': for checkpoints, keep_last is {}, keep_best {} and every {:g} s; "
        "give at least 1, 0 and 0 s",
        options.self.id, checkpoints.keep_last, checkpoints.keep_best,
        std::chrono::duration<double>(checkpoints.every).count());
  }
  if (checkpoints.folder.empty() && options.membership.recovery == Recovery::kConsistent) {
    return base::invalid_argument(
        "open a session as '{}': consistent recovery needs checkpoints, but no folder is set; set "
        "the folder of the checkpoints",
        options.self.id);
  }
  if (options.operation_timeout <= options.membership.step_timeout) {
    return base::invalid_argument(
        "open a session as '{}': operation_timeout is {:g} s, and membership.step_timeout, which "
        "detects members that do not progress, is {:g} s; make operation_timeout longer than "
        "step_timeout",
        options.self.id, std::chrono::duration<double>(options.operation_timeout).count(),
        std::chrono::duration<double>(options.membership.step_timeout).count());
  }
  return {};
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime) {
  return Impl::make(options, trainable, store, runtime, base::gpu_side());
}

Result<std::unique_ptr<Session>> Session::Impl::make(const SessionOptions& options,
                                                     Trainable& trainable, Store& store,
                                                     Runtime& runtime,
                                                     std::unique_ptr<base::DeviceSide> devices) {
  FFDL_RETURN_IF_ERROR(check(options, trainable));
  auto memory = elastic::find_memory(options, trainable, std::move(devices));
  if (!memory.ok()) {
    return std::move(memory).status().with_context(
        fmt::format("open a session as '{}'", options.self.id));
  }
  auto impl = std::make_unique<Impl>(options, trainable, store, runtime, std::move(memory).value());
  FFDL_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Status Session::add_micro_batch(uint64_t samples) { return impl_->add_micro_batch(samples); }
Status Session::begin_average(size_t end, uint64_t samples) {
  return impl_->begin_average(end, samples);
}
Result<StepResult> Session::end_step(uint64_t samples) { return impl_->end_step(samples); }
Result<StepResult> Session::end_step() { return impl_->end_step(); }
Status Session::suspend() { return impl_->suspend(); }
Status Session::resume() { return impl_->resume(); }
const Member& Session::self() const { return impl_->self(); }
Status Session::life_status() const { return impl_->life_status(); }
const World& Session::world() const { return impl_->world(); }
uint64_t Session::step() const { return impl_->step(); }
SessionStats Session::stats() const { return impl_->stats(); }
void Session::request_checkpoint() { impl_->request_checkpoint(); }
Status Session::checkpoint_status() const { return impl_->checkpoint_status(); }
void Session::ask_to_leave() { impl_->ask_to_leave(); }
Status Session::finish() { return impl_->finish(); }
bool Session::is_finished() const { return impl_->is_finished(); }

}  // namespace ffdl
