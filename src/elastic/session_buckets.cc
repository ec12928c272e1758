#include "base/errors.h"
#include "elastic/session_impl.h"

// What a session does of a step while the user computes its gradients.
namespace ffdl {

// Which operations a step has, and in which order, does not depend on this: they only begin sooner.
Status Session::Impl::begin_average(size_t end, uint64_t samples) {
  FFDL_RETURN_IF_ERROR(Status(over_));
  FFDL_RETURN_IF_ERROR(check_resumed("begin to average"));
  if (options_.bucket_bytes == 0) {
    return base::invalid_argument(
        "begin to average: the session was opened without SessionOptions::bucket_bytes");
  }
  if (parts_.samples() > 0) {
    return base::invalid_argument(
        "begin to average: micro-batches of this step were added, which end_step() brings "
        "together; give each step one of the two");
  }
  FFDL_RETURN_IF_ERROR(averaging_.note(end, samples));
  // Others are still given the state, by operations of the same communicator.
  if (giving_ && !given_->wait_until(Time{})) return {};
  if (!averaging_.has_started()) {
    wait_for_giving();
    averaging_.start(communicator(), describe(samples, Step::kNext));
  }
  averaging_.go_on();
  return {};
}

Status Session::Impl::check_noted(uint64_t samples) const {
  const auto noted = averaging_.noted_samples();
  if (!noted || *noted == samples) return {};
  return base::invalid_argument(
      "end a step of {} samples: it was begun with {}; give begin_average() those of all of this "
      "member's gradients of the step",
      samples, *noted);
}

// Nothing but the task's present operation is waited for, and that as the user's thread waits.
void Session::Impl::pause_averaging() {
  while (!averaging_.pause(next_look(kNoDeadline))) {
    if (!look().ok()) abort_communicator();
  }
  stats_.early_buckets += averaging_.buckets_averaged();
}

}  // namespace ffdl
