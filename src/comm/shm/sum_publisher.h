#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/operation/request.h"
#include "comm/shm/sum_ring.h"
#include "ffdl/comm/all_reduce_subscriber.h"
#include "ffdl/comm/communicator.h"
#include "shm/liveness.h"

namespace ffdl::comm {

// One member's side of the ring of sums. It never waits for a subscriber.
// Threads: one at a time.
// Owns: a mapping of the ring, and the lock that proves this member's life to subscribers. Borrows
//       the store, which must outlive it.
class SumPublisher {
 public:
  // Creates the ring at rank 0, and opens it at the others: all succeed or none.
  // Errors: those of an operation of `communicator`, and of Communicator::open_to_subscribers.
  static Result<std::unique_ptr<SumPublisher>> open(Communicator& communicator, Store& store,
                                                    uint64_t ring_bytes, Time deadline);
  // Finishes open(): `lock` is that of the rank in `segment`.
  SumPublisher(const World& world, Store& store, shm::Segment segment, shm::RoleLock lock);
  // Announces that this member has left in order.
  ~SumPublisher();
  SumPublisher(const SumPublisher&) = delete;
  SumPublisher& operator=(const SumPublisher&) = delete;

  // Adds this member's share of the sum in the output of `request`.
  void publish(const Request& request);
  // Announces that this member will publish nothing more.
  void fail();

 private:
  static Result<std::unique_ptr<SumPublisher>> take_place(const World& world, Store& store,
                                                          Result<shm::Segment> segment);
  shm::SegmentPlace place() const { return place_of(segment_); }
  void end_as(RingState state);

  const int rank_;
  const std::string key_;
  Store& store_;
  const shm::Segment segment_;
  const RingView view_;
  shm::RoleLock lock_;
  RingWords& mine_;
  uint64_t number_ = 0;  // of the next sum
  uint64_t position_ = 0;
};

}  // namespace ffdl::comm
