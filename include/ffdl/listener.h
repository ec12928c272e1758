#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

struct ListenerOptions {
  // Sums stay until newer ones need the room: take several times the largest. All of it is reserved
  // when the members open.
  uint64_t ring_bytes = uint64_t{64} << 20;
};

// Receives the sums of a running world on the same host without being a member: what its all_reduce
// gives, with nothing added. So a newcomer applies the gradients of the others while it is still
// being given their state. The members wait for no listener and cannot be harmed by one: who is
// slow finds that the ring has gone over its place, and loses it.
// A sum comes when all members have it; what ended well at some of them only never comes.
// Threads: one at a time.
// Owns: a mapping of the ring, which has no name. Any number may listen.
// Blocks: attach() until the members have opened to listeners; next() until there is another sum;
//         both until their deadline.
class FFDL_API Listener {
 public:
  // The world is the one that the members called open_to_listeners() in, but for its rank, which
  // does not count. Hears every sum whose all_reduce begins after this.
  // Errors: kTimeout (nobody has opened), kUnavailable (its rank 0 is gone, or is of another user
  //         or pid namespace), and those of Store.
  static Result<std::unique_ptr<Listener>> attach(const World& world, Store& store, Time deadline);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The next sum, as many elements of its dtype as it has; `out` counts as its concatenation.
  // Returns its number: of all_reduce operations since the members opened, counted from 0.
  // Errors: kTimeout and kInvalidArgument (another count or dtype; the message names both) change
  //         nothing: call again. The rest stays; `out` is undefined after it:
  //         kExhausted    lost its place: the ring has gone over it, or a sum was larger than the
  //                       ring. Drop what was received, attach again and begin anew; or open a
  //                       larger ring.
  //         kPeerLost     a member died or failed before it had given its share of this sum.
  //         kWorldChanged a member has left in order, or closed to listeners: attach to the next
  //                       world.
  Result<uint64_t> next(std::span<const Buffer> out, Time deadline);
  Result<uint64_t> next(Buffer out, Time deadline) {
    return next(std::span<const Buffer>(&out, 1), deadline);
  }

  class Impl;

 private:
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
