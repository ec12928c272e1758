#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ffdl/comm/communicator.h"

// The transport of a communicator across hosts: messages between any two ranks. Sockets of this
// library implement it (Backend::kTcp), and an adapter to gloo, or a stub if that was not built.
namespace ffdl::comm {

// Messages of one tag from one rank to another arrive in the order of sending. Before a rank waits
// for a message it has started to receive all that the other rank sent it earlier, of any tag: a
// message that nothing receives stops those behind it.
enum class Tag : uint64_t {
  kFirst,    // what every rank runs, and small contents
  kInput,    // elements from a member's input
  kResult,   // elements that have been reduced
  kPair,     // what a member runs with one other
  kMessage,  // elements from a member to one other
};

// Memory that messages come from or go to. After its destructor no thread touches the memory,
// whatever became of the messages.
// Threads: one at a time.
class Place {
 public:
  virtual ~Place() = default;

  // Starts a transfer, and returns before the message has arrived. A message may be shorter than
  // its receiver's room, never longer. Errors: kPeerLost, kCorrupt (from a process that is no
  // member, or of another version).
  virtual Status send(int to, Tag tag, uint64_t offset, uint64_t bytes) = 0;
  virtual Status receive(int from, Tag tag, uint64_t offset, uint64_t bytes) = 0;
  // Waits until all transfers since the last wait have completed, or for the first failure among
  // them. A receive completes when the message has arrived. A send completes when its memory may be
  // used again; one of Tag::kMessage only when its receiver has confirmed it.
  // Errors: kTimeout, kPeerLost, kCorrupt, kCancelled (stop()).
  virtual Status wait(Time deadline) = 0;
};

// A connection to every other rank of a world.
// Threads: stop() and close() from any thread, the rest from one at a time. A fork may destroy it.
class Links {
 public:
  virtual ~Links() = default;

  // Returns a place, which must be destroyed before the links are.
  virtual std::unique_ptr<Place> make_place(std::byte* data, uint64_t bytes) = 0;
  // Ends all waits, present and later.
  virtual void stop() = 0;
  // Ends all connections now: the others report a lost peer.
  virtual void close() = 0;
  // Ends all connections when all sent messages have arrived. No other call may follow, but places
  // may be destroyed afterwards.
  virtual void leave() = 0;
};

// The links of members that have met, and the lease of this rank's record in the store.
struct MetLinks {
  std::unique_ptr<Links> links;
  LeaseId record = kNoLease;
};

// Connects the members of `world`, which find each other through `store`; `address` is that of this
// process. The caller ends the lease of the record, which all have read. It does so when no other
// member waits for it any more: the store may be slow. Calls `interrupt_check` of `options` while
// it waits, and `unreached` before it fails.
// Errors: kTimeout (names the missing member), kPeerLost, kInvalidArgument (`address` is not one of
//         this host), kWorldChanged, and those of Store; through gloo also kUnimplemented.
Result<MetLinks> connect_tcp_links(const World& world, Store& store, Time deadline,
                                   const std::string& address,
                                   const CommunicatorOptions& options = {});
Result<MetLinks> connect_gloo_links(const World& world, Store& store, Time deadline,
                                    const std::string& address,
                                    const CommunicatorOptions& options = {});

// Returns OK if connect_gloo_links can be used. Errors: kUnimplemented (this build has no gloo).
Status have_gloo();

}  // namespace ffdl::comm
