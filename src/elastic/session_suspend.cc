#include "base/errors.h"
#include "elastic/session_impl.h"

// What a session does between two steps, for work of another kind on its GPUs.
namespace ffdl {

Status Session::Impl::suspend() {
  FFDL_RETURN_IF_ERROR(Status(over_));
  FFDL_RETURN_IF_ERROR(check_resumed("suspend"));
  if (averaging_.noted_samples() || parts_.samples() > 0 || micro_batches_.has_added()) {
    return base::invalid_argument("suspend: a step has begun; end it first");
  }
  wait_for_giving();
  is_suspended_ = true;
  return heard_of(communicator()->suspend(operation_deadline()));
}

Status Session::Impl::resume() {
  FFDL_RETURN_IF_ERROR(Status(over_));
  if (!is_suspended_) return base::invalid_argument("resume: the session is not suspended");
  is_suspended_ = false;
  return heard_of(communicator()->resume(operation_deadline()));
}

Status Session::Impl::check_resumed(std::string_view doing) const {
  if (!is_suspended_) return {};
  return base::invalid_argument("{}: the session is suspended; call resume() at all members first",
                                doing);
}

// Of a world that has failed the next step learns, too: its first operation fails.
Status Session::Impl::heard_of(Status status) {
  return status.ok() || !is_final(status) ? Status() : end_life(std::move(status));
}

}  // namespace ffdl
