#pragma once

#include <memory>
#include <vector>

#include "comm/operation_gate.h"
#include "comm/parts.h"
#include "comm/shm_meeting.h"
#include "comm/shm_pairs.h"
#include "comm/sum_publisher.h"
#include "comm/watched_communicator.h"

namespace ffdl::comm {

// One host: what goes from rank to rank lies in the slots of a segment. The thread that calls does
// the work of its rank; the caller's buffers are touched by no other.
class ShmCommunicator final : public WatchedCommunicator {
 public:
  ShmCommunicator(World world, std::unique_ptr<ShmMeeting> meeting);
  ~ShmCommunicator() override;

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kShm; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override;
  Status open_to_listeners(Store& store, const ListenerOptions& options, Time deadline) override;
  void close_to_listeners() override { publisher_.reset(); }
  Status look_for_losses() override { return meeting_->check_lives(); }

 private:
  // Elements of the whole, which pass through the slots together.
  struct Chunk {
    uint64_t begin;
    uint64_t count;
  };

  // A collective: tells the others what it is, and carries it out.
  Status run_collective(const Request& request, Time deadline);
  Status execute(const Request& request, Time deadline);
  // Kept: most operations are as the one before.
  const std::vector<Part>& own_parts(const Signature& signature);
  Status run_flat(const Request& request, Time deadline);
  Status run_large(const Request& request, Time deadline);
  Status run_pipelined(const Request& request, uint64_t begin, Time deadline);
  Chunk chunk_at(const Request& request, uint64_t number) const;
  Status run_in_place(const Request& request, Time deadline);
  // Of the ranks that have announced one.
  int count_places(uint64_t announced) const;
  // The places of all ranks in this process.
  Status reach_places(const Request& request, uint64_t announced);
  // After a failure: returns when no other rank reads or writes our memory.
  void take_back(const shm::SegmentPlace& place);
  // Ends the first step of an operation, in which every rank says what it runs.
  Status end_first_step(const Request& request, Time deadline);
  void give_pieces(const Request& request, const Chunk& chunk, uint64_t step);
  void reduce_own_piece(const Request& request, const Chunk& chunk, uint64_t step);
  void take_pieces(const Request& request, const Chunk& chunk, uint64_t step);
  template <class Visit>
  void for_each_piece_of(const Request& request, const Chunk& chunk, Visit&& visit) const;
  std::byte* find_own(const Request& request, uint64_t place, uint64_t count) const;
  void reduce_to_list(const Request& request, uint64_t slot_offset, uint64_t given, uint64_t begin,
                      uint64_t count, uint64_t step);
  void find_inputs(const Request& request, uint64_t slot_offset, uint64_t given, uint64_t count,
                   uint64_t step);

  const World world_;
  const std::unique_ptr<ShmMeeting> meeting_;
  const ShmView& view_;
  uint64_t operation_ = 0;                        // number of the one that runs
  std::vector<std::byte> scratch_;                // of a slot's size, once it is needed
  std::vector<Part> parts_;                       // of parts_kind_ and parts_root_
  Collective parts_kind_ = Collective::kBarrier;  // which has none
  int parts_root_ = 0;
  std::vector<const std::byte*> places_;
  std::vector<std::byte*> reached_;  // the buffers of all ranks
  ReachableMemory memory_;
  ShmPairs pairs_;
  std::unique_ptr<SumPublisher> publisher_;  // while this is open to listeners

  OperationGate gate_;
};

}  // namespace ffdl::comm
