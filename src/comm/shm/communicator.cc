#include "comm/shm/communicator.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/reduce/tree_reduce.h"

namespace ffdl::comm {
namespace {

// Returns the most blocks of which a slot holds a part.
uint64_t blocks_in_slot(const Signature& signature, int ranks) {
  return in_blocks(signature.kind, signature.root, signature.root, ranks);
}

bool is_large(const Request& request) {
  const Collective kind = request.signature.kind;
  return (kind == Collective::kAllReduce || kind == Collective::kReduce) &&
         request.block_bytes() > base::kFlatBytesMax;
}

}  // namespace

ShmCommunicator::ShmCommunicator(World world, std::unique_ptr<ShmMeeting> meeting)
    : world_(std::move(world)),
      meeting_(std::move(meeting)),
      view_(meeting_->view()),
      places_(world_.members.size()),
      reached_(world_.members.size()),
      pairs_(*meeting_, world_.rank) {}

ShmCommunicator::~ShmCommunicator() {
  abort(Status(StatusCode::kCancelled, "its communicator was closed"));
}

Status ShmCommunicator::run(const Operation& operation, Time deadline) {
  FFDL_RETURN_IF_ERROR(meeting_->check_member(kOperate));
  const bool pair = is_pair(operation.kind);
  FFDL_ASSIGN_OR_RETURN(const Request request, pair ? check_pair_operation(operation, world_)
                                                    : check_operation(operation, world_));
  FFDL_RETURN_IF_ERROR(gate_.enter());
  Status status = check_launcher(world_);
  if (status.ok()) {
    status = pair ? pairs_.run(request, deadline) : run_collective(request, deadline);
  }
  if (!status.ok()) {
    meeting_->stop();
    status = reason_of(world_, std::move(status));
  }
  if (publisher_ != nullptr) {
    if (!status.ok()) {
      publisher_->fail();
    } else if (operation.kind == Collective::kAllReduce) {
      publisher_->publish(request);
    }
  }
  return gate_.leave(std::move(status));
}

void ShmCommunicator::abort(Status why) {
  if (!meeting_->check_member("abort").ok()) return;  // a fork: no operation runs here
  if (why.ok()) why = Status(StatusCode::kCancelled, "aborted");
  gate_.end(std::move(why), [this] { meeting_->stop(); });
}

Status ShmCommunicator::register_memory(const std::shared_ptr<SharedMemory>& memory) {
  if (gate_.running()) return base::invalid_argument("register memory: an operation is running");
  memory_.add(memory);
  return {};
}

Status ShmCommunicator::open_to_subscribers(Store& store, uint64_t ring_bytes, Time deadline) {
  close_to_subscribers();
  FFDL_ASSIGN_OR_RETURN(publisher_, SumPublisher::open(*this, store, ring_bytes, deadline));
  return {};
}

Status ShmCommunicator::run_collective(const Request& request, Time deadline) {
  Announcement& mine = view_.words(world_.rank).announcement[operation_ & 1];
  mine = {.signature = request.signature, .place = {}, .operation = operation_};
  if (meeting_->reaches_all()) mine.place = memory_.place_of(request);
  const shm::SegmentPlace place = mine.place;
  Status status = execute(request, deadline);
  if (status.ok() || place.segment == 0) return status;
  meeting_->stop();
  const Status taken = take_back(place);
  return taken.ok() ? status : Status(taken).with_context(status.to_string());
}

Status ShmCommunicator::execute(const Request& request, Time deadline) {
  return is_large(request) ? run_large(request, deadline) : run_flat(request, deadline);
}

// Relies on the order of steps. Place q & 1 is written again two operations later. By then all have
// passed a step of operation q + 1, and so have read it. A member in another operation has broken
// the order of steps, so its data cannot be used.
Status ShmCommunicator::end_first_step(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(meeting_->end_step(deadline));
  const uint64_t operation = operation_++;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const Announcement& announced = view_.words(rank).announcement[operation & 1];
    if (announced.operation != operation) {
      return base::make_error(StatusCode::kCorrupt,
                              "{} at rank {}: rank {} '{}' is in its operation {}, not in {}; form "
                              "a new world",
                              kOperate, world_.rank, rank,
                              world_.members[static_cast<size_t>(rank)].id, announced.operation,
                              operation);
    }
    const Signature theirs = announced.signature;
    if (theirs == request.signature) continue;
    return disagreement(request.signature, world_.rank, theirs, rank);
  }
  return {};
}

const std::vector<Part>& ShmCommunicator::own_parts(const Signature& signature) {
  if (signature.kind != parts_kind_ || signature.root != parts_root_) {
    parts_kind_ = signature.kind;
    parts_root_ = signature.root;
    parts_ = parts_of(signature.kind, signature.root, world_.rank, view_.ranks());
  }
  return parts_;
}

// Runs steps in which every rank copies the same elements of each of its blocks into its slot. All
// ranks then copy what they need from the slots of the others. A rank's block for itself bypasses
// the slot if it is contiguous.
Status ShmCommunicator::run_flat(const Request& request, Time deadline) {
  const Signature& signature = request.signature;
  const int ranks = view_.ranks();
  const uint64_t element = request.element();
  const uint64_t blocks = std::max<uint64_t>(blocks_in_slot(signature, ranks), 1);
  const uint64_t room = view_.config().slot_bytes / blocks / kLine * (kLine / element);
  const uint64_t given = in_blocks(signature.kind, signature.root, world_.rank, ranks);
  const std::vector<Part>& parts = own_parts(signature);
  uint64_t begin = 0;
  do {
    const uint64_t count = std::min(room, signature.block - begin);
    const uint64_t step = meeting_->step();
    const auto bytes_to = [&](uint64_t block) {
      return (block * signature.block + begin) * element;
    };
    for (uint64_t block = 0; block < given; ++block) {
      const uint64_t place = bytes_to(block);
      const bool for_itself = given > 1 && block == static_cast<uint64_t>(world_.rank);
      if (for_itself && find_own(request, place, count) != nullptr) continue;
      copy_from_list(request.in, place, count * element,
                     view_.input(world_.rank, step) + block * room * element);
    }
    FFDL_RETURN_IF_ERROR(begin == 0 ? end_first_step(request, deadline)
                                    : meeting_->end_step(deadline));
    for (const Part& part : parts) {
      const uint64_t offset = part.in_block * room * element;
      if (part.source == kReduced) {
        reduce_to_list(request, offset, bytes_to(part.in_block), bytes_to(part.out_block), count,
                       step);
      } else {
        const std::byte* from = view_.input(part.source, step) + offset;
        if (part.source == world_.rank) {
          const std::byte* const own = find_own(request, bytes_to(part.in_block), count);
          if (own != nullptr) from = own;
        }
        copy_to_list(from, request.out, bytes_to(part.out_block), count * element);
      }
    }
    begin += count;
  } while (begin < signature.block);
  return {};
}

// Returns the place of `count` elements from byte `place` of the input, or null if not contiguous.
std::byte* ShmCommunicator::find_own(const Request& request, uint64_t place, uint64_t count) const {
  return find_run(request.in, place, count * request.element(), request.element());
}

// Reduces `count` elements to byte `begin` of the output. They begin at byte `slot_offset` of all
// inputs of `step`, and at byte `given` of this rank's input.
void ShmCommunicator::reduce_to_list(const Request& request, uint64_t slot_offset, uint64_t given,
                                     uint64_t begin, uint64_t count, uint64_t step) {
  if (count == 0) return;
  find_inputs(request, slot_offset, given, count, step);
  const Signature& signature = request.signature;
  const uint64_t bytes = count * request.element();
  std::byte* const whole = find_run(request.out, begin, bytes, request.element());
  if (whole != nullptr) {
    tree_reduce(signature.reduce, signature.dtype, places_, whole, count);
    return;
  }
  scratch_.resize(view_.config().slot_bytes);
  tree_reduce(signature.reduce, signature.dtype, places_, scratch_.data(), count);
  copy_to_list(scratch_.data(), request.out, begin, bytes);
}

// Finds the places of all ranks' inputs. This rank's input is read from the caller's buffer if it
// is contiguous there. A line of its slot would come back from the processor that has just read it.
void ShmCommunicator::find_inputs(const Request& request, uint64_t slot_offset, uint64_t given,
                                  uint64_t count, uint64_t step) {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    places_[static_cast<size_t>(rank)] = view_.input(rank, step) + slot_offset;
  }
  std::byte* const own = find_own(request, given, count);
  if (own != nullptr) places_[static_cast<size_t>(world_.rank)] = own;
}

// Sends the first chunk with the announcement if this rank has no place to offer. If no rank has a
// place, that was the first step of the pipeline. If only some have one, the pipeline begins again.
Status ShmCommunicator::run_large(const Request& request, Time deadline) {
  const uint64_t announced = operation_ & 1;
  const bool placed = view_.words(world_.rank).announcement[announced].place.segment != 0;
  if (placed) {
    meeting_->set_touching(true);
  } else {
    give_pieces(request, chunk_at(request, 0), meeting_->step());
  }
  FFDL_RETURN_IF_ERROR(end_first_step(request, deadline));
  const int places = count_places(announced);
  if (places < view_.ranks()) {
    if (placed) meeting_->set_touching(false);
    return run_pipelined(request, places == 0 ? 1 : 0, deadline);
  }
  const Status reached = reach_places(request, announced);
  if (!reached.ok()) return meeting_->blame(reached);
  return run_in_place(request, deadline);
}

int ShmCommunicator::count_places(uint64_t announced) const {
  int places = 0;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    places += view_.words(rank).announcement[announced].place.segment != 0;
  }
  return places;
}

Status ShmCommunicator::reach_places(const Request& request, uint64_t announced) {
  memory_.make_room();
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    std::byte*& reached = reached_[static_cast<size_t>(rank)];
    if (rank == world_.rank) {
      reached = static_cast<std::byte*>(request.out.front().data);
      continue;
    }
    const shm::SegmentPlace place = view_.words(rank).announcement[announced].place;
    FFDL_ASSIGN_OR_RETURN(reached, memory_.reach(place, request.block_bytes()));
  }
  return {};
}

// Reduces this rank's piece of all buffers, and writes the result into all of them.
//
// A rank that fails returns its buffer to the caller, so no rank may touch it any more. A rank sets
// `touching` before it arrives, and checks for failures before every block. A rank that fails sets
// `failed` and then reads `touching`. Both are sequentially consistent: one sees the other.
Status ShmCommunicator::run_in_place(const Request& request, Time deadline) {
  const uint64_t element = request.element();
  const Signature& signature = request.signature;
  const Piece piece = piece_of(world_.rank, view_.ranks(), signature.block, element);
  const uint64_t room = base::kInPlaceBlockBytes / element;
  for (uint64_t begin = piece.begin; begin < piece.end; begin += room) {
    FFDL_RETURN_IF_ERROR(meeting_->check_ranks());
    const uint64_t count = std::min(room, piece.end - begin);
    for (size_t rank = 0; rank < reached_.size(); ++rank) {
      places_[rank] = reached_[rank] + begin * element;
    }
    std::byte* const own = reached_[static_cast<size_t>(world_.rank)] + begin * element;
    tree_reduce(signature.reduce, signature.dtype, places_, own, count);
    for (std::byte* const buffer : reached_) {
      if (buffer + begin * element != own) {
        copy_ahead(buffer + begin * element, own, count * element);
      }
    }
  }
  meeting_->set_touching(false);
  return meeting_->end_step(deadline);
}

Status ShmCommunicator::take_back(const shm::SegmentPlace& place) {
  meeting_->set_touching(false);
  const Time last = deadline_in(base::kTakeBackMax);
  Time next = deadline_in(base::kTakeBackPatience);
  while (!meeting_->wait_until_untouched(base::kTakeBackPoll)) {
    const Time now = std::chrono::steady_clock::now();
    if (now < next) continue;
    // A rank that was stopped in the middle keeps the old pages.
    const Status taken = memory_.take_back(place);
    if (taken.ok()) return {};
    if (now >= last) {
      return base::make_error(
          StatusCode::kExhausted,
          "take the buffer back at rank {}: a stopped rank may still write to the buffer when it "
          "continues, and no other memory could be allocated: {}; end the process of that rank "
          "before the buffer is used again",
          world_.rank, taken.message());
    }
    next = now + base::kTakeBackPatience;
  }
  return {};
}

ShmCommunicator::Chunk ShmCommunicator::chunk_at(const Request& request, uint64_t number) const {
  const uint64_t room = view_.config().slot_bytes / kLine * (kLine / request.element());
  return {number * room, std::min(room, request.signature.block - number * room)};
}

// Pipelines three actions. Step t copies chunk t into the slot, reduces this rank's piece of chunk
// t - 1, and reads chunk t - 2. A rank's own piece bypasses its slot where it is contiguous.
Status ShmCommunicator::run_pipelined(const Request& request, uint64_t begin, Time deadline) {
  const uint64_t room = chunk_at(request, 0).count;
  const uint64_t chunks = (request.signature.block + room - 1) / room;
  for (uint64_t t = begin; t <= chunks; ++t) {
    const uint64_t step = meeting_->step();
    if (t < chunks) give_pieces(request, chunk_at(request, t), step);
    if (t >= 1) reduce_own_piece(request, chunk_at(request, t - 1), step);
    if (t >= 2) take_pieces(request, chunk_at(request, t - 2), step - 1);
    FFDL_RETURN_IF_ERROR(meeting_->end_step(deadline));
  }
  take_pieces(request, chunk_at(request, chunks - 1), meeting_->step() - 1);
  return {};
}

// Copies the chunk's pieces into this rank's slot, for all ranks that reduce one.
void ShmCommunicator::give_pieces(const Request& request, const Chunk& chunk, uint64_t step) {
  for_each_piece_of(request, chunk, [&](int rank, uint64_t offset, uint64_t bytes) {
    const uint64_t place = chunk.begin * request.element() + offset;
    const uint64_t count = bytes / request.element();
    if (rank == world_.rank && find_own(request, place, count) != nullptr) return;
    copy_from_list(request.in, place, bytes, view_.input(world_.rank, step) + offset);
  });
}

// Reduces what the step before copied. Each block goes into the slot while it is in the first-level
// cache.
void ShmCommunicator::reduce_own_piece(const Request& request, const Chunk& chunk, uint64_t step) {
  const Signature& signature = request.signature;
  const uint64_t element = request.element();
  const Piece piece = piece_of(world_.rank, view_.ranks(), chunk.count, element);
  const uint64_t room = base::kInPlaceBlockBytes / element;
  for (uint64_t begin = piece.begin; begin < piece.end; begin += room) {
    const uint64_t count = std::min(room, piece.end - begin);
    const uint64_t bytes = count * element;
    const uint64_t offset = begin * element;
    const uint64_t place = chunk.begin * element + offset;
    find_inputs(request, offset, place, count, step - 1);
    std::byte* const result = view_.result(world_.rank, step) + offset;
    std::byte* const whole = find_run(request.out, place, bytes, element);
    std::byte* const out = whole != nullptr ? whole : result;
    tree_reduce(signature.reduce, signature.dtype, places_, out, count);
    if (whole != nullptr) {
      copy_ahead(result, whole, bytes);
    } else if (!request.out.empty()) {
      copy_to_list(result, request.out, place, bytes);
    }
  }
}

// Copies the pieces that the other ranks reduced in `step`.
void ShmCommunicator::take_pieces(const Request& request, const Chunk& chunk, uint64_t step) {
  if (request.out.empty()) return;
  for_each_piece_of(request, chunk, [&](int rank, uint64_t offset, uint64_t bytes) {
    if (rank == world_.rank) return;
    copy_to_list(view_.result(rank, step) + offset, request.out,
                 chunk.begin * request.element() + offset, bytes);
  });
}

// Calls visit(rank, offset, bytes) for the piece of every rank, with offsets from the chunk's
// begin.
template <class Visit>
void ShmCommunicator::for_each_piece_of(const Request& request, const Chunk& chunk,
                                        Visit&& visit) const {
  const uint64_t element = request.element();
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const Piece piece = piece_of(rank, view_.ranks(), chunk.count, element);
    if (piece.begin != piece.end) {
      visit(rank, piece.begin * element, (piece.end - piece.begin) * element);
    }
  }
}

}  // namespace ffdl::comm
