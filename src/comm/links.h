#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ffdl/communicator.h"

// What a communicator across hosts needs of a transport: messages between any two ranks. It is
// defined by one adapter, or by a stub where that was not built.
namespace ffdl::comm {

// Messages from one rank to another arrive in the order of sending among those of one tag.
enum class Tag : uint64_t {
  kFirst,    // what every rank runs, and small contents
  kInput,    // elements as a member gave them
  kResult,   // elements that have been reduced
  kPair,     // what a member runs with one other
  kMessage,  // elements from a member to one other
};

// Memory that messages come from or go to. When the destructor has returned nobody touches the
// memory, whatever became of them.
// Threads: one at a time.
class Place {
 public:
  virtual ~Place() = default;

  // Both begin, and return before the message has come. A message may be shorter than what its
  // receiver has room for, never longer. One of Tag::kFirst is not confirmed by its receiver: its
  // sender waits for it only when another sign has told that it came. Errors: kPeerLost.
  virtual Status send(int to, Tag tag, uint64_t offset, uint64_t bytes) = 0;
  virtual Status receive(int from, Tag tag, uint64_t offset, uint64_t bytes) = 0;
  // Waits until all that was begun since the last wait has come, here or there, or the first
  // failure among it.
  // Errors: kTimeout, kPeerLost, kCancelled (stop()).
  virtual Status wait(Time deadline) = 0;
};

// A connection to every other rank of a world.
// Threads: stop() and close() from any thread, the rest from one at a time. A fork may destroy it.
class Links {
 public:
  virtual ~Links() = default;

  // It must be gone before the links are.
  virtual std::unique_ptr<Place> make_place(std::byte* data, uint64_t bytes) = 0;
  // Who waits returns, and nobody waits any more.
  virtual void stop() = 0;
  // Ends all connections now: the others find a lost peer.
  virtual void close() = 0;
  // The same when all that was sent has arrived. Nothing else is called afterwards, and places may
  // go.
  virtual void leave() = 0;
};

// Connects the members of `world`, which find each other through `store`; `address` is that of this
// process. Errors: kTimeout (names who has not come), kPeerLost, kInvalidArgument (`address` is not
// one of this host), kWorldChanged, kUnimplemented, and those of Store.
Result<std::unique_ptr<Links>> connect_links(const World& world, Store& store, Time deadline,
                                             const std::string& address);

// Ok if connect_links can be used. Errors: kUnimplemented (this build has none).
Status have_links();

}  // namespace ffdl::comm
