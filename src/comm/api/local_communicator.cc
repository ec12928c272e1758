#include "comm/api/local_communicator.h"

#include <cstring>

#include "base/errors.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/operation/collective_blocks.h"
#include "comm/reduce/tree_reduce.h"

namespace ffdl {
namespace comm {
namespace {

using Bytes = std::vector<std::byte>;

Bytes whole_of(std::span<const Buffer> list) {
  uint64_t size = 0;
  for (const Buffer& buffer : list) size += buffer.count * element_bytes(buffer.dtype);
  Bytes bytes(size);
  copy_from_list(list, 0, size, bytes.data());
  return bytes;
}

// Computes the output of one rank from the inputs of all.
Bytes output_of(int rank, const Signature& signature, const std::vector<Bytes>& inputs) {
  const uint64_t block = signature.block * element_bytes(signature.dtype);
  const auto ranks = static_cast<int>(inputs.size());
  const std::vector<Part> parts = parts_of(signature.kind, signature.root, rank, ranks);
  Bytes output(parts.size() * block);
  if (output.empty()) return output;
  for (const Part& part : parts) {
    std::byte* const to = output.data() + part.out_block * block;
    const uint64_t from = part.in_block * block;
    if (part.source != kReduced) {
      std::memcpy(to, inputs[static_cast<size_t>(part.source)].data() + from, block);
      continue;
    }
    std::vector<const std::byte*> places;
    for (const Bytes& input : inputs) places.push_back(input.data() + from);
    tree_reduce(signature.reduce, signature.dtype, places, to, signature.block);
  }
  return output;
}

}  // namespace

// Copies all inputs before the first output is written, as in-place operations need.
void carry_out(const std::vector<const Request*>& requests) {
  std::vector<Bytes> inputs;
  for (const Request* request : requests) inputs.push_back(whole_of(request->in));
  const Signature& signature = requests.front()->signature;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    const Bytes output = output_of(static_cast<int>(rank), signature, inputs);
    copy_to_list(output.data(), requests[rank]->out, 0, output.size());
  }
}

Status LocalMeeting::run(int rank, const Request& request, Time deadline) {
  std::vector<const Request*> requests;
  uint64_t round = 0;
  {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_for(rank);
    round = round_;
    requests_[static_cast<size_t>(rank)] = &request;
    if (++arrived_ < size()) return wait_for_others(rank, round, deadline);
    for (int other = 0; other < size(); ++other) {
      const Signature& theirs = requests_[static_cast<size_t>(other)]->signature;
      if (theirs == request.signature) continue;
      fail(rank, disagreement(request.signature, rank, theirs, other));
      return failure_for(rank);
    }
    executing_ = true;
    requests = requests_;
  }
  carry_out(requests);
  base::MutexLock lock(mutex_);
  executing_ = false;
  arrived_ = 0;
  requests_.assign(requests_.size(), nullptr);
  if (failure_.ok()) ++round_;
  changed_.notify_all();
  return failure_.ok() ? Status() : failure_for(rank);
}

Status LocalMeeting::wait_for_others(int rank, uint64_t round, Time deadline) {
  while (round_ == round && (failure_.ok() || executing_)) {
    const bool in_time = changed_.wait_until(mutex_, executing_ ? kNoDeadline : deadline);
    if (in_time || round_ != round || !failure_.ok() || executing_) continue;
    fail(rank, base::make_error(StatusCode::kTimeout,
                                "run an operation at rank {}: {} had not arrived by the deadline; "
                                "wait longer, or find out what they do",
                                rank, missing()));
  }
  // A rank that was aborted between the end of the operation and here must not succeed.
  const bool whole = round_ != round && !aborted_[static_cast<size_t>(rank)];
  return whole ? Status() : failure_for(rank);
}

bool LocalMeeting::is_met(int rank, Collective kind, int other) const {
  const Request* const theirs = pairs_[static_cast<size_t>(other)];
  return theirs != nullptr && theirs->signature.kind == kind && theirs->signature.root == rank;
}

// Copies under the mutex, so that abort() waits for it.
Status LocalMeeting::run_pair(int rank, const Request& request, Time deadline) {
  const Signature& mine = request.signature;
  const bool sends = mine.kind == Collective::kSend;
  base::MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_for(rank);
  if (is_met(rank, sends ? Collective::kRecv : Collective::kSend, mine.root)) {
    const Request*& other = pairs_[static_cast<size_t>(mine.root)];
    if (!fit(mine, other->signature)) {
      fail(rank, disagreement(mine, rank, other->signature, mine.root));
      return failure_for(rank);
    }
    const Bytes message = whole_of(sends ? request.in : other->in);
    copy_to_list(message.data(), sends ? other->out : request.out, 0, message.size());
    other = nullptr;
    changed_.notify_all();
    return {};
  }
  const Request*& waiting = pairs_[static_cast<size_t>(rank)];
  waiting = &request;
  while (waiting != nullptr && failure_.ok()) {
    if (changed_.wait_until(mutex_, deadline) || waiting == nullptr || !failure_.ok()) continue;
    const bool both = sends && is_met(rank, Collective::kSend, mine.root);
    fail(rank,
         both ? both_send(mine, rank)
              : base::make_error(StatusCode::kTimeout,
                                 "run an operation at rank {}: rank {} '{}' had not arrived by "
                                 "the deadline; wait longer, or find out what it does",
                                 rank, mine.root, members_[static_cast<size_t>(mine.root)].id));
  }
  const bool met = std::exchange(waiting, nullptr) == nullptr;
  // A rank that was aborted since must not succeed.
  return met && !aborted_[static_cast<size_t>(rank)] ? Status() : failure_for(rank);
}

std::string LocalMeeting::missing() const {
  std::string text;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (requests_[rank] != nullptr) continue;
    text += fmt::format("{}rank {} '{}'", text.empty() ? "" : ", ", rank, members_[rank].id);
  }
  return text;
}

void LocalMeeting::fail(int rank, Status why) {
  if (failure_.ok()) {
    failure_ = std::move(why);
    failed_rank_ = rank;
  }
  changed_.notify_all();
}

Status LocalMeeting::failure_for(int rank) const {
  // All ranks report a disagreement as it is.
  if (rank == failed_rank_ || failure_.code() == StatusCode::kInvalidArgument) return failure_;
  return base::make_error(StatusCode::kPeerLost,
                          "run an operation at rank {}: rank {} '{}' failed: {}; form a new world",
                          rank, failed_rank_, members_[static_cast<size_t>(failed_rank_)].id,
                          failure_.message());
}

void LocalMeeting::abort(int rank, Status why) {
  base::MutexLock lock(mutex_);
  aborted_[static_cast<size_t>(rank)] = true;
  fail(rank, std::move(why));
  while (executing_) changed_.wait(mutex_);
}

LocalCommunicator::~LocalCommunicator() {
  meeting_->abort(world_.rank, Status(StatusCode::kCancelled, "its communicator was closed"));
}

Status LocalCommunicator::run(const Operation& operation, Time deadline) {
  if (is_pair(operation.kind)) {
    FFDL_ASSIGN_OR_RETURN(const Request request, check_pair_operation(operation, world_));
    return meeting_->run_pair(world_.rank, request, deadline);
  }
  FFDL_ASSIGN_OR_RETURN(const Request request, check_operation(operation, world_));
  return meeting_->run(world_.rank, request, deadline);
}

void LocalCommunicator::abort(Status why) {
  if (why.ok()) why = comm::aborted();
  meeting_->abort(world_.rank, std::move(why));
}

}  // namespace comm

Result<std::vector<std::unique_ptr<Communicator>>> make_local_communicators(
    uint64_t generation, std::span<const Member> members) {
  World world = {.generation = generation, .rank = 0, .members = {members.begin(), members.end()}};
  FFDL_RETURN_IF_ERROR(comm::check_world(world));
  const auto meeting = std::make_shared<comm::LocalMeeting>(world.members);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (world.rank = 0; world.rank < world.size(); ++world.rank) {
    ranks.push_back(std::make_unique<comm::LocalCommunicator>(world, meeting));
  }
  return ranks;
}

}  // namespace ffdl
