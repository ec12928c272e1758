#include "comm/gpu/nccl/communicator.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/gpu/nccl/choice.h"
#include "comm/operation/collective_blocks.h"
#include "comm/operation/gather.h"

namespace ffdl::comm {

NcclCommunicator::NcclCommunicator(World world, Parts parts)
    : DeviceCommunicator(std::move(world), std::move(parts.host), std::move(parts.side),
                         parts.device, std::move(parts.interrupt_check)),
      library_(std::move(parts.library)),
      stage_bytes_(parts.stage_bytes),
      gpu_worlds_(parts.gpu_worlds),
      derive_max_(parts.derive_max) {}

Result<std::unique_ptr<Communicator>> NcclCommunicator::connect(World world, Parts parts,
                                                                Time deadline) {
  auto made =
      std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(world), std::move(parts)));
  FFDL_RETURN_IF_ERROR(made->open(deadline));
  return std::unique_ptr<Communicator>(std::move(made));
}

// Publishes this rank's failure before it returns, so that no rank waits for it in NCCL.
Status NcclCommunicator::open(Time deadline) {
  Status mine = library_.status();
  if (mine.ok()) mine = begin_on_device();
  const base::DeviceUse use(*side_, std::max(device_, 0));
  FFDL_RETURN_IF_ERROR(connector().agree(mine, library_, gpu_worlds_, deadline));
  if (gpu_worlds_ == GpuWorlds::kReuse) return {};
  return start(connector().connect(*library_, deadline));
}

NcclConnector NcclCommunicator::connector() {
  return {world_, *host_,
          [this](std::string_view doing, Time deadline) { return pause_until(doing, deadline); },
          derive_max_};
}

Status NcclCommunicator::start(NcclLink::Made link) {
  FFDL_RETURN_IF_ERROR(link.status());
  link_ = std::move(link).value();
  exchange_ = std::make_unique<NcclExchange>(world_, *side_, stream_.get(), stage_bytes_);
  return {};
}

bool NcclCommunicator::has_member(const Member& member) const {
  return std::ranges::find(world_.members, member) != world_.members.end();
}

Status NcclCommunicator::continue_from(Communicator* before, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_process());
  auto* const old = dynamic_cast<NcclCommunicator*>(before);
  if (old != nullptr) {
    old->gate_.end(Status(StatusCode::kCancelled, "a newer world continues from its own"), [] {});
    const bool all_stay = std::ranges::all_of(
        old->world_.members, [this](const Member& member) { return has_member(member); });
    // A member that has gone takes no part in an orderly end.
    if (!all_stay && old->link_ != nullptr) old->link_->end_alone();
  }
  if (gpu_worlds_ == GpuWorlds::kFresh || link_ != nullptr) return {};
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = derive(old, deadline);
  if (!status.ok()) give_up(status);
  return gate_.leave(std::move(status));
}

Status NcclCommunicator::derive(NcclCommunicator* old, Time deadline) {
  const base::DeviceUse use(*side_, device_);
  FFDL_RETURN_IF_ERROR(use.status());
  const NcclPast past = past_of(old);
  return start(
      connector().derive(*library_, past, old == nullptr ? nullptr : old->link_.get(), deadline));
}

NcclPast NcclCommunicator::past_of(NcclCommunicator* old) {
  NcclPast past = {.calls = nccl_calls((*library_)->functions())};
  if (old == nullptr) return past;
  past.generation = old->world_.generation;
  past.rank = old->world_.rank;
  past.size = old->world_.size();
  past.state = NcclPast::State::kGone;
  if (old->link_ == nullptr || old->link_->has_ended() || old->device_ != device_) return past;
  const bool is_fit = old->link_->check("continue from a world of NCCL").ok();
  if (!is_fit || old->link_->is_suspended()) old->link_->revoke();
  if (old->link_->has_ended()) return past;
  past.state = old->link_->is_revoked() ? NcclPast::State::kRevoked : NcclPast::State::kQuiet;
  return past;
}

std::string_view NcclCommunicator::name_of(Memory to) {
  return to == Memory::kKept ? "resume" : "suspend";
}

Status NcclCommunicator::suspend(Time deadline) { return bring(Memory::kGivenBack, deadline); }
Status NcclCommunicator::resume(Time deadline) { return bring(Memory::kKept, deadline); }

Status NcclCommunicator::bring(Memory to, Time deadline) {
  FFDL_RETURN_IF_ERROR(check_process());
  if (memory_ == to) {
    return base::invalid_argument(
        "{} at rank {}: it is{} suspended; call suspend() and resume() in turns", name_of(to),
        world_.rank, to == Memory::kKept ? " not" : "");
  }
  memory_ = to;  // also on failure: the two calls alternate
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = bring_together(to, deadline);
  if (!status.ok()) give_up(status);
  return gate_.leave(std::move(status));
}

// Exchanges which ranks can do it: NCCL does it at all ranks or waits for ever.
Status NcclCommunicator::bring_together(Memory to, Time deadline) {
  const base::DeviceUse use(*side_, std::max(device_, 0));
  FFDL_RETURN_IF_ERROR(use.status());
  struct Card {
    Memory to;
    bool can;
  };
  const bool resumes = to == Memory::kKept;
  const Card mine = {to,
                     link_ != nullptr && (resumes ? link_->is_suspended() : link_->can_suspend())};
  FFDL_ASSIGN_OR_RETURN(const std::vector<Card> cards, gather_from_all(*host_, mine, deadline));
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].to == to) continue;
    return base::invalid_argument(
        "{} at rank {}: rank {} '{}' calls {}; call suspend() and resume() in the same order at "
        "all ranks",
        name_of(to), world_.rank, rank, world_.members[rank].id, name_of(cards[rank].to));
  }
  if (!resumes && exchange_ != nullptr) exchange_->drop_copies();
  if (!std::ranges::all_of(cards, &Card::can)) return {};
  const Pause pause = pause_until(name_of(to), deadline);
  return resumes ? link_->resume(pause) : link_->suspend(pause);
}

// Leaves softly: everything sent by an operation that succeeded still arrives.
NcclCommunicator::~NcclCommunicator() {
  if (!check_process().ok()) {
    static_cast<void>(exchange_.release());
    static_cast<void>(link_.release());
    return;
  }
  gate_.end(Status(StatusCode::kCancelled, "its communicator was closed"), [] {});
  const base::DeviceUse use(*side_, std::max(device_, 0));
  if (link_ == nullptr) return;
  Wait wait = {"leave NCCL",    deadline_in(base::kNcclLeaveMax),
               deadline_in({}), kNoDeadline,
               kNoDeadline,     false};
  link_->leave([&] { return pause(wait); });
}

Status NcclCommunicator::check_on_device(const Request& request) const {
  if (reduces(request.signature.kind)) {
    FFDL_RETURN_IF_ERROR(nccl_type(request.signature.dtype).status());
  }
  if (memory_ == Memory::kGivenBack) {
    return base::invalid_argument(
        "{} at rank {}: it is suspended; call resume() at all ranks first",
        describe(request.signature), world_.rank);
  }
  if (link_ != nullptr) return {};
  return base::invalid_argument(
      "{} at rank {}: the GPUs are not connected; call continue_from() at all ranks first, as "
      "GpuWorlds::kReuse requires",
      describe(request.signature), world_.rank);
}

Status NcclCommunicator::run_on_device(const Request& request, Time deadline) {
  const bool pair = is_pair(request.signature.kind);
  FFDL_RETURN_IF_ERROR(pair ? agree_with_peer(request, deadline) : agree(request, deadline));
  FFDL_RETURN_IF_ERROR(side_->follow_default(stream_.get()));
  FFDL_RETURN_IF_ERROR(exchange_->begin(request, *link_, pause_until(kOperate, deadline)));
  FFDL_RETURN_IF_ERROR(wait_for_stream(pause_until(kOperate, deadline)));
  // NCCL's send may end while the message is on its way.
  return pair ? pass_turn(request, Collective::kRecv, deadline) : Status();
}

void NcclCommunicator::give_up(const Status& why) {
  host_->abort(why);
  const base::DeviceUse use(*side_, device_);
  if (link_ != nullptr && gpu_worlds_ == GpuWorlds::kReuse) {
    link_->revoke();  // it can still be shrunk
  } else if (link_ != nullptr) {
    link_->abort();
  }
  // Waits as abort() promises. NCCL has signalled its kernels to end. If they do not, only the end
  // of the process ends them.
  wait_for_end_of_stream();
}

}  // namespace ffdl::comm
