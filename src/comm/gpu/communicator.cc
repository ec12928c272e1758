#include "comm/gpu/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/collective_blocks.h"
#include "comm/operation/gather.h"

namespace ffdl::comm {

using base::make_error;

namespace {

Time now() { return std::chrono::steady_clock::now(); }

template <class T>
Buffer bytes_of(T& value) {
  return {&value, sizeof value, DType::kInt8};
}

}  // namespace

DeviceCommunicator::DeviceCommunicator(World world, std::unique_ptr<WatchedCommunicator> host,
                                       std::unique_ptr<base::DeviceSide> side, int device,
                                       std::function<Status()> look)
    : world_(std::move(world)),
      pid_(getpid()),
      host_(std::move(host)),
      side_(std::move(side)),
      device_(device),
      look_(std::move(look)) {}

DeviceCommunicator::~DeviceCommunicator() {
  if (!check_process().ok()) static_cast<void>(stream_.release());
}

Status DeviceCommunicator::check_process() const {
  if (getpid() == pid_) return {};
  return make_error(StatusCode::kCancelled,
                    "{} at rank {}: this process is a fork of the member; connect in the child",
                    kOperate, world_.rank);
}

Status DeviceCommunicator::begin_on_device() {
  if (device_ < 0) {
    FFDL_ASSIGN_OR_RETURN(device_, side_->in_use());
  }
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_ASSIGN_OR_RETURN(stream_, side_->make_stream());
  return {};
}

Status DeviceCommunicator::run(const Operation& operation, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_process());
  FFDL_ASSIGN_OR_RETURN(const Request request, is_pair(operation.kind)
                                                   ? check_pair_operation(operation, world_)
                                                   : check_operation(operation, world_));
  FFDL_ASSIGN_OR_RETURN(const bool on_device, is_on_device(request));
  if (on_device) FFDL_RETURN_IF_ERROR(check_on_device(request));
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = on_device ? use_device_for(request, deadline) : host_->run(operation, deadline);
  if (!status.ok()) {
    status = reason_of(world_, std::move(status));
    give_up(status);
  }
  return gate_.leave(std::move(status));
}

// Uses the host at all ranks if nothing moves: no rank then knows the side of the others' buffers.
Result<bool> DeviceCommunicator::is_on_device(const Request& request) {
  if (request.signature.block == 0) return false;
  bool host = false;
  bool device = false;
  for (const std::span<const Buffer> list : {request.in, request.out}) {
    for (const Buffer& buffer : list) {
      if (buffer.count == 0) continue;
      FFDL_ASSIGN_OR_RETURN(const bool held, side_->holds(buffer.data));
      (held ? device : host) = true;
    }
  }
  if (!host || !device) return device;
  return base::invalid_argument(
      "{} at rank {}: some buffers are in a GPU's memory and some in the host's; put all of them "
      "into one of the two",
      describe(request.signature), world_.rank);
}

Status DeviceCommunicator::use_device_for(const Request& request, Time deadline) {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  return run_on_device(request, deadline);
}

Status DeviceCommunicator::agree(const Request& request, Time deadline) {
  const Signature& mine = request.signature;
  FFDL_ASSIGN_OR_RETURN(const std::vector<Signature> all, gather_from_all(*host_, mine, deadline));
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Signature& theirs = all[static_cast<size_t>(rank)];
    if (!(theirs == mine)) return disagreement(mine, world_.rank, theirs, rank);
  }
  return {};
}

Status DeviceCommunicator::agree_with_peer(const Request& request, Time deadline) {
  Signature mine = request.signature;
  Signature theirs;
  const int peer = mine.root;
  if (mine.kind == Collective::kSend) {
    FFDL_RETURN_IF_ERROR(host_->send(bytes_of(mine), peer, deadline));
    FFDL_RETURN_IF_ERROR(host_->recv(bytes_of(theirs), peer, deadline));
  } else {
    FFDL_RETURN_IF_ERROR(host_->recv(bytes_of(theirs), peer, deadline));
    FFDL_RETURN_IF_ERROR(host_->send(bytes_of(mine), peer, deadline));
  }
  return fit(mine, theirs) ? Status() : disagreement(mine, world_.rank, theirs, peer);
}

Status DeviceCommunicator::pass_turn(const Request& request, Collective by, Time deadline) {
  int8_t turn = 0;
  const int peer = request.signature.root;
  return request.signature.kind == by ? host_->send(bytes_of(turn), peer, deadline)
                                      : host_->recv(bytes_of(turn), peer, deadline);
}

Status DeviceCommunicator::wait_for_stream(const Pause& pause) {
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const bool done, side_->is_done(stream_.get()));
    FFDL_RETURN_IF_ERROR(check_device());
    if (done) return {};
    FFDL_RETURN_IF_ERROR(pause());
  }
}

void DeviceCommunicator::wait_for_end_of_stream() {
  while (true) {
    const Result<bool> done = side_->is_done(stream_.get());
    if (!done.ok() || *done) return;
    std::this_thread::yield();
  }
}

Pause DeviceCommunicator::pause_until(std::string_view doing, Time deadline) {
  const Time at = now();
  return [this, wait = Wait{doing, deadline, at, at + base::kLivenessInterval, at,
                            false}]() mutable { return pause(wait); };
}

Pause DeviceCommunicator::pause_alone_until(std::string_view doing, Time deadline) {
  const Time at = now();
  return [this, wait = Wait{doing, deadline, at, kNoDeadline, at, false}]() mutable {
    return pause(wait);
  };
}

Status DeviceCommunicator::pause(Wait& wait) {
  const Time at = now();
  if (stopped_.load()) return make_error(StatusCode::kCancelled, "{}: stopped", wait.doing);
  if (at >= wait.looks_for_losses) {
    wait.looks_for_losses = at + base::kLivenessInterval;
    Status loss = host_->look_for_losses();
    if (!loss.ok() && std::exchange(wait.lost, true)) return loss;
  }
  if (look_ && at >= wait.looks) {
    wait.looks = at + base::kLookInterval;
    FFDL_RETURN_IF_ERROR(look_());
  }
  if (at >= wait.deadline) {
    return make_error(StatusCode::kTimeout,
                      "{} at rank {}: the GPUs had not finished by the deadline, and no member is "
                      "known to be lost; wait longer, or see what nvidia-smi reports of each",
                      wait.doing, world_.rank);
  }
  if (at - wait.began < base::kDeviceSpinMax) {
    std::this_thread::yield();
    return {};
  }
  base::MutexLock lock(idle_mutex_);
  if (!stopped_.load()) idle_.wait_until(idle_mutex_, at + base::kDevicePoll);
  return {};
}

void DeviceCommunicator::abort(Status why) {
  if (!check_process().ok()) return;
  if (why.ok()) why = comm::aborted();
  gate_.end(why, [&] {
    stopped_.store(true);
    {
      base::MutexLock lock(idle_mutex_);
      idle_.notify_all();
    }
    host_->abort(why);
  });
}

}  // namespace ffdl::comm
