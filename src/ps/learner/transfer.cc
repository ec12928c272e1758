#include "ps/learner/transfer.h"

#include <utility>

#include "base/errors.h"

namespace ffdl::ps {
namespace {

Status too_early(std::string_view what) {
  return base::make_error(StatusCode::kTimeout,
                          "finish_{}: it is not done; wait longer, and call it again", what);
}

Status none_started(std::string_view what) {
  return base::invalid_argument("finish_{0}: none was started; call start_{0}() first", what);
}

Status one_is_under_way(std::string_view what) {
  return base::invalid_argument("start_{0}: one is under way; finish_{0}() first", what);
}

}  // namespace

Result<std::unique_ptr<Transfer>> Transfer::begin() {
  auto made = std::unique_ptr<Transfer>(new Transfer);
  FFDL_RETURN_IF_ERROR(made->pull_.begin("ffdl-pull"));
  FFDL_RETURN_IF_ERROR(made->push_.begin("ffdl-push"));
  return made;
}

Status Transfer::check_no_pull() { return pull_.busy() ? one_is_under_way("pull") : Status(); }
Status Transfer::check_no_push() { return push_.busy() ? one_is_under_way("push") : Status(); }

Status Transfer::start_pull(std::function<Result<uint64_t>()> pull) {
  return pull_.start(std::move(pull)) ? Status() : one_is_under_way("pull");
}

Result<uint64_t> Transfer::finish_pull(Time deadline) {
  if (!pull_.busy()) return none_started("pull");
  std::optional<Result<uint64_t>> version = pull_.take(deadline);
  if (!version) return too_early("pull");
  return std::move(*version);
}

Status Transfer::start_push(std::function<Result<PushResult>()> push) {
  return push_.start(std::move(push)) ? Status() : one_is_under_way("push");
}

Result<PushResult> Transfer::finish_push(Time deadline) {
  if (!push_.busy()) return none_started("push");
  std::optional<Result<PushResult>> pushed = push_.take(deadline);
  if (!pushed) return too_early("push");
  return std::move(*pushed);
}

}  // namespace ffdl::ps
