#include "comm/shm_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/parts.h"
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
      reached_(world_.members.size()) {}

ShmCommunicator::~ShmCommunicator() {
  abort(Status(StatusCode::kCancelled, "its communicator was closed"));
}

Status ShmCommunicator::run(const Operation& operation, Time deadline) {
  FFDL_RETURN_IF_ERROR(meeting_->check_member("run an operation"));
  FFDL_ASSIGN_OR_RETURN(const Request request, check_operation(operation, world_));
  {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    running_ = true;
  }
  Announcement& mine = view_.words(world_.rank).announcement[operation_ & 1];
  mine = {.signature = request.signature, .place = {}};
  if (meeting_->reaches_all()) mine.place = memory_.place_of(request);
  const SharedPlace place = mine.place;
  Status status = execute(request, deadline);
  if (!status.ok()) {
    meeting_->stop();
    if (place.memory != 0) take_back(place);
  }
  base::MutexLock lock(mutex_);
  running_ = false;
  // An abort that came meanwhile wins: it must not be followed by an ok.
  if (failure_.ok()) failure_ = std::move(status);
  ended_.notify_all();
  return failure_;
}

void ShmCommunicator::abort(Status why) {
  if (!meeting_->check_member("abort").ok()) return;  // a fork: nothing of it runs here
  if (why.ok()) why = Status(StatusCode::kCancelled, "aborted");
  {
    base::MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(why);
  }
  meeting_->stop();
  base::MutexLock lock(mutex_);
  while (running_) ended_.wait(mutex_);
}

Status ShmCommunicator::register_memory(const std::shared_ptr<SharedMemory>& memory) {
  base::MutexLock lock(mutex_);
  if (running_) return base::invalid_argument("register memory: an operation is running");
  memory_.add(memory);
  return {};
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

// In each step every rank lays the same elements of each of its blocks into its slot; all take what
// they need from the slots of the others.
Status ShmCommunicator::run_flat(const Request& request, Time deadline) {
  const Signature& signature = request.signature;
  const int ranks = view_.ranks();
  const uint64_t element = request.element();
  const uint64_t blocks = std::max<uint64_t>(blocks_in_slot(signature, ranks), 1);
  const uint64_t room = view_.config().slot_bytes / blocks / kLine * (kLine / element);
  const uint64_t given = in_blocks(signature.kind, signature.root, world_.rank, ranks);
  const std::vector<Part> parts = parts_of(signature.kind, signature.root, world_.rank, ranks);
  uint64_t begin = 0;
  do {
    const uint64_t count = std::min(room, signature.block - begin);
    const uint64_t step = meeting_->step();
    const auto bytes_to = [&](uint64_t block) {
      return (block * signature.block + begin) * element;
    };
    for (uint64_t block = 0; block < given; ++block) {
      copy_from_list(request.in, bytes_to(block), count * element,
                     view_.input(world_.rank, step) + block * room * element);
    }
    FFDL_RETURN_IF_ERROR(begin == 0 ? end_first_step(request, deadline)
                                    : meeting_->end_step(deadline));
    for (const Part& part : parts) {
      const uint64_t offset = part.in_block * room * element;
      if (part.source == kReduced) {
        reduce_to_list(request, offset, bytes_to(part.out_block), count, step);
      } else {
        copy_to_list(view_.input(part.source, step) + offset, request.out, bytes_to(part.out_block),
                     count * element);
      }
    }
    begin += count;
  } while (begin < signature.block);
  return {};
}

// Reduces `count` elements, which lie `slot_offset` bytes into all inputs of `step`, to byte
// `begin` of the output.
void ShmCommunicator::reduce_to_list(const Request& request, uint64_t slot_offset, uint64_t begin,
                                     uint64_t count, uint64_t step) {
  if (count == 0) return;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    places_[static_cast<size_t>(rank)] = view_.input(rank, step) + slot_offset;
  }
  const Signature& signature = request.signature;
  const uint64_t bytes = count * request.element();
  std::byte* whole = nullptr;  // where the output is one aligned run of memory
  for_each_piece(request.out, begin, bytes, [&](std::byte* piece, uint64_t size) {
    const bool aligned = reinterpret_cast<uintptr_t>(piece) % request.element() == 0;
    if (size == bytes && aligned) whole = piece;
  });
  if (whole != nullptr) {
    tree_reduce(signature.reduce, signature.dtype, places_, whole, count);
    return;
  }
  scratch_.resize(view_.config().slot_bytes);
  tree_reduce(signature.reduce, signature.dtype, places_, scratch_.data(), count);
  copy_to_list(scratch_.data(), request.out, begin, bytes);
}

// The first step only tells what each rank has; then all do the same.
Status ShmCommunicator::run_large(const Request& request, Time deadline) {
  const uint64_t announced = operation_ & 1;
  const bool placed = view_.words(world_.rank).announcement[announced].place.memory != 0;
  if (placed) meeting_->set_touching(true);
  FFDL_RETURN_IF_ERROR(end_first_step(request, deadline));
  const Result<bool> all_placed = find_places(announced, request.block_bytes());
  if (!all_placed.ok()) return meeting_->blame(all_placed.status());
  if (*all_placed) return run_in_place(request, deadline);
  if (placed) meeting_->set_touching(false);
  return run_pipelined(request, deadline);
}

Result<bool> ShmCommunicator::find_places(uint64_t announced, uint64_t bytes) {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    if (view_.words(rank).announcement[announced].place.memory == 0) return false;
  }
  memory_.make_room();
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const SharedPlace place = view_.words(rank).announcement[announced].place;
    FFDL_ASSIGN_OR_RETURN(reached_[static_cast<size_t>(rank)], memory_.reach(place, bytes));
  }
  return true;
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
      if (buffer + begin * element != own)
        std::memcpy(buffer + begin * element, own, count * element);
    }
  }
  meeting_->set_touching(false);
  return meeting_->end_step(deadline);
}

void ShmCommunicator::take_back(const SharedPlace& place) {
  meeting_->set_touching(false);
  const Time patience = deadline_in(base::kTakeBackPatience);
  while (!meeting_->wait_until_untouched(base::kTakeBackPoll)) {
    // One that was stopped in the middle: it keeps the old pages.
    if (std::chrono::steady_clock::now() >= patience && memory_.take_back(place).ok()) return;
  }
}

// Step t: chunk t comes in, the own piece of chunk t - 1 is reduced, chunk t - 2 goes out.
Status ShmCommunicator::run_pipelined(const Request& request, Time deadline) {
  const uint64_t element = request.element();
  const uint64_t room = view_.config().slot_bytes / kLine * (kLine / element);
  const uint64_t all = request.signature.block;
  const uint64_t chunks = (all + room - 1) / room;
  const auto count_of = [&](uint64_t chunk) { return std::min(room, all - chunk * room); };
  for (uint64_t t = 0; t <= chunks; ++t) {
    const uint64_t step = meeting_->step();
    if (t < chunks) {
      copy_from_list(request.in, t * room * element, count_of(t) * element,
                     view_.input(world_.rank, step));
    }
    if (t >= 1) reduce_own_piece(request, count_of(t - 1), step - 1, step);
    if (t >= 2) copy_results(request, (t - 2) * room, count_of(t - 2), step - 1);
    FFDL_RETURN_IF_ERROR(meeting_->end_step(deadline));
  }
  copy_results(request, (chunks - 1) * room, count_of(chunks - 1), meeting_->step() - 1);
  return {};
}

// Of the `count` elements given in step `given_in`, into the result of `step`, at the same place.
void ShmCommunicator::reduce_own_piece(const Request& request, uint64_t count, uint64_t given_in,
                                       uint64_t step) {
  const Signature& signature = request.signature;
  const Piece piece = piece_of(world_.rank, view_.ranks(), count, request.element());
  if (piece.begin == piece.end) return;
  const uint64_t offset = piece.begin * request.element();
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    places_[static_cast<size_t>(rank)] = view_.input(rank, given_in) + offset;
  }
  tree_reduce(signature.reduce, signature.dtype, places_, view_.result(world_.rank, step) + offset,
              piece.end - piece.begin);
}

// The pieces that all ranks reduced in `step`, to elements [begin, begin + count) of the output.
void ShmCommunicator::copy_results(const Request& request, uint64_t begin, uint64_t count,
                                   uint64_t step) {
  if (request.out.empty()) return;
  const uint64_t element = request.element();
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const Piece piece = piece_of(rank, view_.ranks(), count, element);
    copy_to_list(view_.result(rank, step) + piece.begin * element, request.out,
                 (begin + piece.begin) * element, (piece.end - piece.begin) * element);
  }
}

}  // namespace ffdl::comm
