#pragma once

#include <memory>
#include <vector>

#include "comm/operation/collective_blocks.h"
#include "comm/operation/operation_gate.h"
#include "comm/operation/watched_communicator.h"
#include "comm/shm/meeting.h"
#include "comm/shm/pairs.h"
#include "comm/shm/sum_publisher.h"

namespace ffdl::comm {

// Runs the collectives of one host: data goes from rank to rank through the slots of a segment. The
// calling thread does the work of its rank. No other thread touches the caller's buffers.
class ShmCommunicator final : public WatchedCommunicator {
 public:
  ShmCommunicator(World world, std::unique_ptr<ShmMeeting> meeting);
  ~ShmCommunicator() override;

  const World& world() const override { return world_; }
  Backend backend() const override { return Backend::kShm; }
  Status run(const Operation& operation, Time deadline) override;
  void abort(Status why) override;
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override;
  Status open_to_subscribers(Store& store, uint64_t ring_bytes, Time deadline) override;
  void close_to_subscribers() override { publisher_.reset(); }
  Status look_for_losses() override { return meeting_->check_lives(); }

 private:
  // Elements of the whole that pass through the slots together.
  struct Chunk {
    uint64_t begin;
    uint64_t count;
  };

  // Publishes what this rank runs, and carries out the collective.
  Status run_collective(const Request& request, Time deadline);
  Status execute(const Request& request, Time deadline);
  // Returns the cached parts: most operations equal the previous one.
  const std::vector<Part>& own_parts(const Signature& signature);
  Status run_flat(const Request& request, Time deadline);
  Status run_large(const Request& request, Time deadline);
  Status run_pipelined(const Request& request, uint64_t begin, Time deadline);
  Chunk chunk_at(const Request& request, uint64_t number) const;
  Status run_in_place(const Request& request, Time deadline);
  // Returns the number of ranks that have announced a place.
  int count_places(uint64_t announced) const;
  // Maps the places of all ranks into this process.
  Status reach_places(const Request& request, uint64_t announced);
  // Waits, after a failure, until no other rank reads or writes this rank's memory, at most for
  // kTakeBackMax. Errors: kExhausted (a stopped rank may still write to it).
  Status take_back(const shm::SegmentPlace& place);
  // Ends the first step of an operation, in which every rank announces what it runs.
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
  uint64_t operation_ = 0;                        // number of the running one
  std::vector<std::byte> scratch_;                // of a slot's size, once it is needed
  std::vector<Part> parts_;                       // of parts_kind_ and parts_root_
  Collective parts_kind_ = Collective::kBarrier;  // kBarrier has none
  int parts_root_ = 0;
  std::vector<const std::byte*> places_;
  std::vector<std::byte*> reached_;  // the buffers of all ranks
  ReachableMemory memory_;
  ShmPairs pairs_;
  std::unique_ptr<SumPublisher> publisher_;  // while this is open to subscribers

  OperationGate gate_;
};

}  // namespace ffdl::comm
