#include "comm/nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/nccl_choice.h"
#include "comm/parts.h"

namespace ffdl::comm {

using base::make_error;

namespace {

Time now() { return std::chrono::steady_clock::now(); }

template <class T>
Buffer bytes_of(T& value) {
  return {&value, sizeof value, DType::kInt8};
}

}  // namespace

// As it goes from host to host.
struct NcclCommunicator::Card {
  int32_t version = 0;  // of NCCL; 0: this rank cannot take part
  int32_t reserved = 0;
  nccl::UniqueId id{};  // of ranks that make one
};

NcclCommunicator::NcclCommunicator(World world, Parts parts)
    : world_(std::move(world)),
      pid_(getpid()),
      host_(std::move(parts.host)),
      side_(std::move(parts.side)),
      library_(std::move(parts.library)),
      device_(parts.device),
      stage_bytes_(parts.stage_bytes),
      look_(std::move(parts.look)) {}

Result<std::unique_ptr<Communicator>> NcclCommunicator::connect(World world, Parts parts,
                                                                Time deadline) {
  auto made =
      std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(world), std::move(parts)));
  FFDL_RETURN_IF_ERROR(made->open(deadline));
  return std::unique_ptr<Communicator>(std::move(made));
}

// Who cannot take part tells so before it fails: nobody waits for it in NCCL.
Status NcclCommunicator::open(Time deadline) {
  Status mine = library_.status();
  if (mine.ok() && device_ < 0) {
    const Result<int> device = side_->in_use();
    mine = device.status();
    if (mine.ok()) device_ = *device;
  }
  const base::DeviceUse use(*side_, std::max(device_, 0));
  if (mine.ok()) mine = use.status();
  if (mine.ok()) {
    Result<base::SideStream> stream = side_->make_stream();
    mine = stream.status();
    if (mine.ok()) stream_ = std::move(stream).value();
  }
  FFDL_ASSIGN_OR_RETURN(const std::vector<Card> cards, exchange_cards(mine, deadline));
  const int ids = nccl_ids(world_.size(), (*library_)->functions());
  std::vector<nccl::UniqueId> all;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (makes_nccl_id(rank, world_.size(), ids)) all.push_back(cards[static_cast<size_t>(rank)].id);
  }
  FFDL_ASSIGN_OR_RETURN(link_, NcclLink::connect(*library_, all, world_.rank, world_.size(),
                                                 pause_until("connect over NCCL", deadline)));
  exchange_ = std::make_unique<NcclExchange>(world_, *side_, stream_.get(), stage_bytes_);
  return {};
}

Result<std::vector<NcclCommunicator::Card>> NcclCommunicator::exchange_cards(const Status& mine,
                                                                             Time deadline) {
  Card card;
  Status told = mine;
  if (told.ok()) {
    card.version = (*library_)->version();
    const int ids = nccl_ids(world_.size(), (*library_)->functions());
    if (makes_nccl_id(world_.rank, world_.size(), ids)) {
      const nccl::Code code = (**library_)->get_unique_id(&card.id);
      if (code != nccl::Code::kSuccess) {
        told = nccl_error("make a unique id", code, (**library_)->get_error_string(code), "");
        card.version = 0;
      }
    }
  }
  std::vector<Card> cards(world_.members.size());
  FFDL_RETURN_IF_ERROR(host_->all_gather(
      bytes_of(card), {cards.data(), cards.size() * sizeof(Card), DType::kInt8}, deadline));
  FFDL_RETURN_IF_ERROR(told);
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string& id = world_.members[rank].id;
    if (cards[rank].version == 0) {
      return make_error(StatusCode::kUnimplemented,
                        "connect generation {} as rank {}: rank {} '{}' has no GPU or no NCCL that "
                        "can be used; its own message says what it lacks",
                        world_.generation, world_.rank, rank, id);
    }
    if (cards[rank].version == card.version) continue;
    return base::invalid_argument(
        "connect generation {} as rank {}: rank {} '{}' has NCCL {}, this one has {}; give all "
        "members the same",
        world_.generation, world_.rank, rank, id, nccl_version_text(cards[rank].version),
        nccl_version_text(card.version));
  }
  return cards;
}

// What an operation that ended well has sent still arrives.
NcclCommunicator::~NcclCommunicator() {
  if (getpid() != pid_) {  // a fork: neither NCCL's threads nor the GPU are its own
    static_cast<void>(exchange_.release());
    static_cast<void>(link_.release());
    static_cast<void>(stream_.release());
    return;
  }
  gate_.end(Status(StatusCode::kCancelled, "its communicator was closed"), [] {});
  const base::DeviceUse use(*side_, std::max(device_, 0));
  if (link_ == nullptr) return;
  Wait wait = {"leave NCCL", deadline_in(base::kNcclLeaveMax), now(), kNoDeadline, kNoDeadline,
               false};
  link_->leave([&] { return pause(wait); });
}

Status NcclCommunicator::run(const Operation& operation, Time deadline) {
  if (getpid() != pid_) {
    return make_error(StatusCode::kCancelled,
                      "{} at rank {}: this process is a fork of the member; connect in the child",
                      kOperate, world_.rank);
  }
  FFDL_ASSIGN_OR_RETURN(const Request request, is_pair(operation.kind)
                                                   ? check_pair_operation(operation, world_)
                                                   : check_operation(operation, world_));
  FFDL_ASSIGN_OR_RETURN(const bool on_device, is_on_device(request));
  if (on_device && reduces(operation.kind)) {
    FFDL_RETURN_IF_ERROR(nccl_type(request.signature.dtype).status());
  }
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = on_device ? run_on_device(request, deadline) : host_->run(operation, deadline);
  if (!status.ok()) give_up(status);
  return gate_.leave(std::move(status));
}

// Where nothing moves, nobody can tell whose buffers there are: all ranks take the host.
Result<bool> NcclCommunicator::is_on_device(const Request& request) {
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
      "{} at rank {}: some buffers lie in a GPU's memory and some in the host's; copy them to one "
      "side",
      describe(request.signature), world_.rank);
}

Status NcclCommunicator::run_on_device(const Request& request, Time deadline) {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  const bool pair = is_pair(request.signature.kind);
  FFDL_RETURN_IF_ERROR(pair ? agree_with_peer(request, deadline) : agree(request, deadline));
  FFDL_RETURN_IF_ERROR(side_->follow_default(stream_.get()));
  FFDL_RETURN_IF_ERROR(exchange_->begin(request, *link_, pause_until(kOperate, deadline)));
  FFDL_RETURN_IF_ERROR(wait_for_stream(deadline));
  return pair ? confirm(request, deadline) : Status();
}

Status NcclCommunicator::agree(const Request& request, Time deadline) {
  Signature mine = request.signature;
  std::vector<Signature> all(world_.members.size());
  FFDL_RETURN_IF_ERROR(host_->all_gather(
      bytes_of(mine), {all.data(), all.size() * sizeof(Signature), DType::kInt8}, deadline));
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Signature& theirs = all[static_cast<size_t>(rank)];
    if (!(theirs == mine)) return disagreement(mine, world_.rank, theirs, rank);
  }
  return {};
}

Status NcclCommunicator::agree_with_peer(const Request& request, Time deadline) {
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

Status NcclCommunicator::wait_for_stream(Time deadline) {
  const Pause pause = pause_until(kOperate, deadline);
  while (true) {
    FFDL_ASSIGN_OR_RETURN(const bool done, side_->is_done(stream_.get()));
    if (done) return link_->check(kOperate);
    FFDL_RETURN_IF_ERROR(link_->check(kOperate));
    FFDL_RETURN_IF_ERROR(pause());
  }
}

// NCCL's send may end when the message is on its way.
Status NcclCommunicator::confirm(const Request& request, Time deadline) {
  int8_t receipt = 0;
  const int peer = request.signature.root;
  return request.signature.kind == Collective::kSend
             ? host_->recv(bytes_of(receipt), peer, deadline)
             : host_->send(bytes_of(receipt), peer, deadline);
}

Pause NcclCommunicator::pause_until(std::string_view doing, Time deadline) {
  const Time at = now();
  return [this, wait = Wait{doing, deadline, at, at + base::kLivenessInterval, at,
                            false}]() mutable { return pause(wait); };
}

Status NcclCommunicator::pause(Wait& wait) {
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
    return make_error(
        StatusCode::kTimeout,
        "{} at rank {}: the GPUs were not done by the deadline, and nobody is known to "
        "be lost; wait longer, or see what nvidia-smi says of each",
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

void NcclCommunicator::give_up(const Status& why) {
  host_->abort(why);
  const base::DeviceUse use(*side_, device_);
  link_->abort();
  // As abort() promises. NCCL has told its kernels to end; where they do not, nothing can end them
  // but the end of the process.
  while (true) {
    const Result<bool> done = side_->is_done(stream_.get());
    if (!done.ok() || *done) return;
    std::this_thread::yield();
  }
}

void NcclCommunicator::abort(Status why) {
  if (getpid() != pid_) return;
  if (why.ok()) why = Status(StatusCode::kCancelled, "aborted");
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
