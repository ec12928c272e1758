#include "comm/shm_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/pieces.h"
#include "comm/tree_reduce.h"

namespace ffdl::comm {
namespace {

// The most blocks that a slot has to hold a part of.
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
  Status status = pair ? pairs_.run(request, deadline) : run_collective(request, deadline);
  if (!status.ok()) meeting_->stop();
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
  if (!meeting_->check_member("abort").ok()) return;  // a fork: nothing of it runs here
  if (why.ok()) why = Status(StatusCode::kCancelled, "aborted");
  gate_.end(std::move(why), [this] { meeting_->stop(); });
}

Status ShmCommunicator::register_memory(const std::shared_ptr<SharedMemory>& memory) {
  if (gate_.running()) return base::invalid_argument("register memory: an operation is running");
  memory_.add(memory);
  return {};
}

Status ShmCommunicator::open_to_listeners(Store& store, const ListenerOptions& options,
                                          Time deadline) {
  close_to_listeners();
  FFDL_ASSIGN_OR_RETURN(publisher_, SumPublisher::open(*this, store, options, deadline));
  return {};
}

Status ShmCommunicator::run_collective(const Request& request, Time deadline) {
  Announcement& mine = view_.words(world_.rank).announcement[operation_ & 1];
  mine = {.signature = request.signature, .place = {}};
  if (meeting_->reaches_all()) mine.place = memory_.place_of(request);
  const shm::SegmentPlace place = mine.place;
  Status status = execute(request, deadline);
  if (status.ok() || place.segment == 0) return status;
  meeting_->stop();
  take_back(place);
  return status;
}

Status ShmCommunicator::execute(const Request& request, Time deadline) {
  return is_large(request) ? run_large(request, deadline) : run_flat(request, deadline);
}

// Place q & 1 is written again two operations later, when all have passed a step of operation q + 1
// and so have read it.
Status ShmCommunicator::end_first_step(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(meeting_->end_step(deadline));
  const uint64_t place = operation_++ & 1;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const Signature theirs = view_.words(rank).announcement[place].signature;
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

// In each step every rank lays the same elements of each of its blocks into its slot; all take what
// they need from the slots of the others. What a rank gives itself stays where it is, if it lies
// there in one piece.
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

// Where `count` elements from byte `place` of the input lie, if in one piece.
std::byte* ShmCommunicator::find_own(const Request& request, uint64_t place, uint64_t count) const {
  return find_run(request.in, place, count * request.element(), request.element());
}

// Reduces `count` elements, which lie `slot_offset` bytes into all inputs of `step` and at byte
// `given` of the own one, to byte `begin` of the output.
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

// The places of what all ranks gave: the own is read from where the caller has it, if it lies there
// in one piece. A line of the own slot would come back from the processor that has just read it.
void ShmCommunicator::find_inputs(const Request& request, uint64_t slot_offset, uint64_t given,
                                  uint64_t count, uint64_t step) {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    places_[static_cast<size_t>(rank)] = view_.input(rank, step) + slot_offset;
  }
  std::byte* const own = find_own(request, given, count);
  if (own != nullptr) places_[static_cast<size_t>(world_.rank)] = own;
}

// Who has no place to offer gives its first chunk in the step that tells so: if nobody has one,
// that was the first step of the pipeline. If some have, it begins again.
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
  Status reached = reach_places(request, announced);
  if (!reached.ok()) return meeting_->blame(std::move(reached));
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

// Every rank reduces its piece of all buffers, and writes it into all of them.
//
// A rank that fails gives its buffer back to the caller, so nobody may touch it any more. Who
// touches has said so before it arrived, and looks for failures before every block; who fails says
// so and then looks who touches. Both are sequentially consistent: one sees the other.
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

void ShmCommunicator::take_back(const shm::SegmentPlace& place) {
  meeting_->set_touching(false);
  const Time patience = deadline_in(base::kTakeBackPatience);
  while (!meeting_->wait_until_untouched(base::kTakeBackPoll)) {
    // One that was stopped in the middle: it keeps the old pages.
    if (std::chrono::steady_clock::now() >= patience && memory_.take_back(place).ok()) return;
  }
}

ShmCommunicator::Chunk ShmCommunicator::chunk_at(const Request& request, uint64_t number) const {
  const uint64_t room = view_.config().slot_bytes / kLine * (kLine / request.element());
  return {number * room, std::min(room, request.signature.block - number * room)};
}

// Step t: chunk t is given, the own piece of chunk t - 1 is reduced, chunk t - 2 is taken. A rank's
// own piece does not pass through its slot, where it can be read and written in one piece.
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

// To all who reduce a piece of it.
void ShmCommunicator::give_pieces(const Request& request, const Chunk& chunk, uint64_t step) {
  for_each_piece_of(request, chunk, [&](int rank, uint64_t offset, uint64_t bytes) {
    const uint64_t place = chunk.begin * request.element() + offset;
    const uint64_t count = bytes / request.element();
    if (rank == world_.rank && find_own(request, place, count) != nullptr) return;
    copy_from_list(request.in, place, bytes, view_.input(world_.rank, step) + offset);
  });
}

// Of what was given in the step before. It goes into the slot while it is in the first-level cache.
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

// What the others reduced in `step`.
void ShmCommunicator::take_pieces(const Request& request, const Chunk& chunk, uint64_t step) {
  if (request.out.empty()) return;
  for_each_piece_of(request, chunk, [&](int rank, uint64_t offset, uint64_t bytes) {
    if (rank == world_.rank) return;
    copy_to_list(view_.result(rank, step) + offset, request.out,
                 chunk.begin * request.element() + offset, bytes);
  });
}

// Calls visit(rank, offset, bytes) for the piece of every rank; offsets from the chunk's begin.
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
