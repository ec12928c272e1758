#include "comm/gpu/shm_communicator.h"

#include <algorithm>
#include <utility>

#include "base/element_pack.h"
#include "base/errors.h"
#include "comm/gpu/lists.h"
#include "comm/operation/collective_blocks.h"
#include "comm/operation/gather.h"

namespace ffdl::comm {
namespace {

constexpr std::string_view kConnect = "connect through the memory of GPUs";

}  // namespace

// The data sent from rank to rank. All of its bytes must be set.
struct DeviceShmCommunicator::Card {
  uint64_t outcome = 0;  // a StatusCode
  uint64_t bytes = 0;    // of its stage
  DescriptorExchange::Address address{};
};

DeviceShmCommunicator::DeviceShmCommunicator(World world, Parts parts)
    : DeviceCommunicator(std::move(world), std::move(parts.host), std::move(parts.side),
                         parts.device, std::move(parts.interrupt_check)),
      stage_bytes_(parts.stage_bytes),
      reduce_(std::move(parts.reduce)),
      stages_(world_.members.size()) {}

DeviceShmCommunicator::~DeviceShmCommunicator() {
  if (!check_process().ok()) {
    for (base::SideMemory& stage : stages_) static_cast<void>(stage.release());
    return;
  }
  gate_.end(Status(StatusCode::kCancelled, "its communicator was closed"), [] {});
  const base::DeviceUse use(*side_, std::max(device_, 0));
  stages_.clear();
}

Result<std::unique_ptr<Communicator>> DeviceShmCommunicator::connect(World world, Parts parts,
                                                                     Time deadline) {
  if (world.size() > static_cast<int>(kDeviceInputsMax)) {
    return base::invalid_argument(
        "connect generation {}: {} members; through the memory of GPUs there are at most {}; use "
        "the backend nccl",
        world.generation, world.size(), kDeviceInputsMax);
  }
  using Self = DeviceShmCommunicator;
  auto made = std::unique_ptr<Self>(new Self(std::move(world), std::move(parts)));
  FFDL_RETURN_IF_ERROR(made->open(deadline));
  return std::unique_ptr<Communicator>(std::move(made));
}

// Publishes this rank's failure before it returns, so that no rank waits for it. Afterwards the
// descriptors are no longer needed, and all are closed.
Status DeviceShmCommunicator::open(Time deadline) {
  Status mine = begin_on_device();
  const base::DeviceUse use(*side_, std::max(device_, 0));
  if (mine.ok()) mine = use.status();
  Card card;
  base::ForkPrivateFd own;
  if (mine.ok()) {
    Result<base::ShareableSideMemory> stage = side_->allocate_shareable(3 * stage_bytes_);
    mine = stage.status();
    if (mine.ok()) {
      card.bytes = stage->bytes;
      own = std::move(stage->descriptor);
      stages_[static_cast<size_t>(world_.rank)] = std::move(stage->memory);
    }
  }
  Result<DescriptorExchange> exchange = DescriptorExchange::open();
  if (exchange.ok()) card.address = exchange->address();
  if (mine.ok()) mine = exchange.status();
  FFDL_ASSIGN_OR_RETURN(const std::vector<Card> cards, tell(mine, card, deadline));
  std::vector<DescriptorExchange::Address> addresses;
  for (const Card& told : cards) addresses.push_back(told.address);
  FFDL_ASSIGN_OR_RETURN(
      const std::vector<base::ForkPrivateFd> names,
      exchange->run(world_, addresses, own.get(), pause_until(kConnect, deadline)));
  return tell(map_stages(cards, names), card, deadline).status();
}

Status DeviceShmCommunicator::map_stages(const std::vector<Card>& cards,
                                         const std::vector<base::ForkPrivateFd>& names) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (rank == static_cast<size_t>(world_.rank)) continue;
    FFDL_ASSIGN_OR_RETURN(stages_[rank],
                          side_->map_shareable(names[rank].get(), cards[rank].bytes));
  }
  return {};
}

Result<std::vector<DeviceShmCommunicator::Card>> DeviceShmCommunicator::tell(const Status& mine,
                                                                             Card card,
                                                                             Time deadline) {
  card.outcome = static_cast<uint64_t>(mine.code());
  FFDL_ASSIGN_OR_RETURN(std::vector<Card> cards, gather_from_all(*host_, card, deadline));
  FFDL_RETURN_IF_ERROR(mine);
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const auto outcome = static_cast<StatusCode>(cards[rank].outcome);
    if (outcome == StatusCode::kOk) continue;
    return base::make_error(outcome,
                            "{} at rank {}: rank {} '{}' cannot share its GPU's memory; read the "
                            "error message of that rank",
                            kConnect, world_.rank, rank, world_.members[rank].id);
  }
  return cards;
}

std::byte* DeviceShmCommunicator::half_of(int rank) const {
  return stages_[static_cast<size_t>(rank)].get() + (given_ & 1) * stage_bytes_;
}

std::byte* DeviceShmCommunicator::box_of(int rank) const {
  return stages_[static_cast<size_t>(rank)].get() + 2 * stage_bytes_;
}

Status DeviceShmCommunicator::run_on_device(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(side_->follow_default(stream_.get()));
  return is_pair(request.signature.kind) ? run_pair(request, deadline)
                                         : run_collective(request, deadline);
}

// Transfers chunks through halves. Half q & 1 of each stage has chunk q of all that this
// communicator ever transfers. All ranks count the same chunks, as they run the same operations. A
// rank
//
//   gives chunk q     (its stream writes its own half q & 1)
//   waits for its stream, arrives at barrier q and waits for all others there
//   takes chunk q     (its stream reads half q & 1 of all)
//   gives chunk q + 1, waits for its stream, arrives at barrier q + 1 ..
//
// Reads are whole: a rank that passes barrier q knows that the writes of all for q are over. And no
// rank writes what is still read. Half q & 1 is written again for chunk q + 2, after barrier q + 1.
// Each rank arrives at that barrier only after its stream has read chunk q. So one barrier per
// chunk suffices with two halves. With one half, chunk q + 1 would be written while others read q.
// The end of an operation changes nothing. Its last chunk is followed by the first of the next
// operation, and at the first barrier of that the ranks agree on it.
Status DeviceShmCommunicator::run_collective(const Request& request, Time deadline) {
  const Signature& signature = request.signature;
  const uint64_t blocks = std::max<uint64_t>(
      in_blocks(signature.kind, signature.root, signature.root, world_.size()), 1);
  const uint64_t room = stage_bytes_ / blocks / kLine * (kLine / request.element());
  const auto chunk_at = [&](uint64_t begin) {
    return Chunk{begin, std::min(room, signature.block - begin), room};
  };
  Chunk chunk = chunk_at(0);
  FFDL_RETURN_IF_ERROR(give(request, chunk));
  while (true) {
    FFDL_RETURN_IF_ERROR(wait_until_done(deadline));
    FFDL_RETURN_IF_ERROR(chunk.begin == 0 ? agree(request, deadline) : host_->barrier(deadline));
    FFDL_RETURN_IF_ERROR(take(request, chunk));
    ++given_;
    if (chunk.begin + chunk.count == signature.block) break;
    chunk = chunk_at(chunk.begin + chunk.count);
    FFDL_RETURN_IF_ERROR(give(request, chunk));
  }
  return wait_until_done(deadline);
}

Status DeviceShmCommunicator::give(const Request& request, const Chunk& chunk) {
  const Signature& signature = request.signature;
  const uint64_t element = request.element();
  const uint64_t blocks = in_blocks(signature.kind, signature.root, world_.rank, world_.size());
  for (uint64_t block = 0; block < blocks; ++block) {
    FFDL_RETURN_IF_ERROR(copy_from_list(
        *side_, stream_.get(), request.in, (block * signature.block + chunk.begin) * element,
        chunk.count * element, half_of(world_.rank) + block * chunk.room * element));
  }
  return {};
}

Status DeviceShmCommunicator::take(const Request& request, const Chunk& chunk) {
  const Signature& signature = request.signature;
  const uint64_t element = request.element();
  for (const Part& part : parts_of(signature.kind, signature.root, world_.rank, world_.size())) {
    const uint64_t to = (part.out_block * signature.block + chunk.begin) * element;
    if (part.source == kReduced) {
      FFDL_RETURN_IF_ERROR(reduce(request, chunk, part.in_block, to));
      continue;
    }
    FFDL_RETURN_IF_ERROR(copy_to_list(*side_, stream_.get(),
                                      half_of(part.source) + part.in_block * chunk.room * element,
                                      request.out, to, chunk.count * element));
  }
  return {};
}

// Reduces in place or through this rank's box. A kernel writes whole packs at aligned places, so
// any other place gets a copy. The box is free: the receiver of its last message has confirmed it.
Status DeviceShmCommunicator::reduce(const Request& request, const Chunk& chunk, uint64_t in_block,
                                     uint64_t to) {
  const uint64_t element = request.element();
  const uint64_t bytes = chunk.count * element;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < world_.size(); ++rank) {
    inputs.push_back(half_of(rank) + in_block * chunk.room * element);
  }
  std::byte* const whole = find_run(request.out, to, bytes, base::kDeviceAlignment);
  std::byte* const result = whole != nullptr ? whole : box_of(world_.rank);
  FFDL_RETURN_IF_ERROR(reduce_(request.signature.reduce, request.signature.dtype, inputs, result,
                               chunk.count, stream_.get()));
  if (whole != nullptr) return {};
  return copy_to_list(*side_, stream_.get(), result, request.out, to, bytes);
}

// Sends one part of the message at a time through the sender's box. The halves are not used, as the
// other ranks take no part.
Status DeviceShmCommunicator::run_pair(const Request& request, Time deadline) {
  const bool sends = request.signature.kind == Collective::kSend;
  std::byte* const box = box_of(sends ? world_.rank : request.signature.root);
  const uint64_t all = request.block_bytes();
  for (uint64_t begin = 0; begin < all; begin += stage_bytes_) {
    const uint64_t bytes = std::min(stage_bytes_, all - begin);
    if (sends) {
      FFDL_RETURN_IF_ERROR(copy_from_list(*side_, stream_.get(), request.in, begin, bytes, box));
      FFDL_RETURN_IF_ERROR(wait_until_done(deadline));
    }
    FFDL_RETURN_IF_ERROR(begin == 0 ? agree_with_peer(request, deadline)
                                    : pass_turn(request, Collective::kSend, deadline));
    if (!sends) {
      FFDL_RETURN_IF_ERROR(copy_to_list(*side_, stream_.get(), box, request.out, begin, bytes));
      FFDL_RETURN_IF_ERROR(wait_until_done(deadline));
    }
    FFDL_RETURN_IF_ERROR(pass_turn(request, Collective::kRecv, deadline));
  }
  return {};
}

// Ignores losses: a stream that needs no other rank ends, whichever member dies meanwhile.
Status DeviceShmCommunicator::wait_until_done(Time deadline) {
  return wait_for_stream(pause_alone_until(kOperate, deadline));
}

// Returns when the stream has ended, as abort() promises.
void DeviceShmCommunicator::give_up(const Status& why) {
  host_->abort(why);
  const base::DeviceUse use(*side_, device_);
  wait_for_end_of_stream();
}

}  // namespace ffdl::comm
