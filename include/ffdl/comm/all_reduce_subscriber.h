#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

// Subscribes to the all_reduce results of a running world on the same host. A subscriber is not a
// member: it contributes nothing and cannot delay or break the world. So a newcomer applies the
// gradients of the others while it still receives their state. A slow subscriber loses its place
// when the ring overwrites it.
// A result arrives when all members have it. If an operation succeeds at only some members, its
// result never arrives.
// Threads: one at a time.
// Owns: a mapping of the ring, which has no name. Any number of subscribers may exist.
// Blocks: attach() until the members have opened to subscribers; next() until there is another
//         result; both until their deadline.
class FFDL_API AllReduceSubscriber {
 public:
  // Attaches to the world in which the members called open_to_subscribers(); its rank is ignored.
  // The subscriber receives every result whose all_reduce begins after this.
  // Errors: kTimeout (no member has opened), kUnavailable (its rank 0 is gone, or has another
  //         user or pid namespace), and those of Store.
  static Result<std::unique_ptr<AllReduceSubscriber>> attach(const World& world, Store& store,
                                                             Time deadline);
  ~AllReduceSubscriber();
  AllReduceSubscriber(const AllReduceSubscriber&) = delete;
  AllReduceSubscriber& operator=(const AllReduceSubscriber&) = delete;

  // Receives the next result. `out` counts as a concatenation, with as many elements of the dtype
  // as the result has. Returns its number: all_reduce operations since the members opened, from 0.
  // Errors: kTimeout and kInvalidArgument (another count or dtype; the message names both) change
  //         nothing: call again. The other errors are final; `out` is then undefined:
  //         kExhausted    the ring has overwritten this subscriber's place, or a result was larger
  //                       than the ring. Drop all received data, attach again and start over; or
  //                       open a larger ring.
  //         kPeerLost     a member died or failed before it had published its share of the result.
  //         kWorldChanged a member has left in order, or called close_to_subscribers(): attach to
  //                       the next world.
  //         kCorrupt      the next result has a wrong number: the ring was damaged.
  Result<uint64_t> next(std::span<const Buffer> out, Time deadline);
  Result<uint64_t> next(Buffer out, Time deadline) {
    return next(std::span<const Buffer>(&out, 1), deadline);
  }

  class Impl;

 private:
  explicit AllReduceSubscriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
