#include "comm/network/communicator.h"

#include <unistd.h>

#include "base/errors.h"
#include "comm/operation/collective_blocks.h"
#include "comm/operation/request.h"

namespace ffdl::comm {

LinkedCommunicator::LinkedCommunicator(World world, std::unique_ptr<Links> links, Backend backend)
    : world_(std::move(world)),
      backend_(backend),
      pid_(getpid()),
      links_(std::move(links)),
      agreement_(world_, *links_),
      exchange_(world_, *links_),
      pairs_(world_, *links_) {}

// Ends connections softly: everything sent by an operation that succeeded still arrives.
LinkedCommunicator::~LinkedCommunicator() {
  end(Status(StatusCode::kCancelled, "its communicator was closed"));
  links_->leave();
}

Status LinkedCommunicator::open(Time deadline) {
  FFDL_RETURN_IF_ERROR(agreement_.open());
  return LinkedCommunicator::run({}, deadline);
}

Status LinkedCommunicator::run(const Operation& operation, Time deadline) {
  if (getpid() != pid_) {
    return base::make_error(StatusCode::kCancelled,
                            "run an operation at rank {}: this process is a fork of the member; "
                            "connect in the child",
                            world_.rank);
  }
  const bool pair = is_pair(operation.kind);
  FFDL_ASSIGN_OR_RETURN(const Request request, pair ? check_pair_operation(operation, world_)
                                                    : check_operation(operation, world_));
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = check_launcher(world_);
  if (status.ok()) status = pair ? run_pair(request, deadline) : execute(request, deadline);
  if (!status.ok()) {
    // The others learn of the failure, and no transfer to or from the caller's buffers is left.
    stop();
    links_->close();
    exchange_.let_go();
    pairs_.let_go();
    status = reason_of(world_, std::move(status));
  }
  return gate_.leave(std::move(status));
}

Status LinkedCommunicator::execute(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(agreement_.agree(request, deadline));
  if (comes_along(request)) {
    exchange_.finish_small(request, agreement_);
  } else {
    FFDL_RETURN_IF_ERROR(run_large(request, deadline));
  }
  agreement_.end();
  return {};
}

Status LinkedCommunicator::run_large(const Request& request, Time deadline) {
  return exchange_.finish_large(request, deadline);
}

Status LinkedCommunicator::run_pair(const Request& request, Time deadline) {
  return pairs_.run(request, deadline);
}

void LinkedCommunicator::stop() { links_->stop(); }

void LinkedCommunicator::abort(Status why) {
  if (getpid() != pid_) return;
  end(why.ok() ? comm::aborted() : std::move(why));
  links_->close();
}

void LinkedCommunicator::end(Status why) {
  if (getpid() != pid_) return;  // a fork: no operation runs here
  gate_.end(std::move(why), [this] { stop(); });
}

}  // namespace ffdl::comm
