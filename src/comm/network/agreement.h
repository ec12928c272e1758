#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/network/links.h"
#include "comm/operation/request.h"

namespace ffdl::comm {

// Exchanges the first message of every operation between all ranks: what the sender runs, and its
// contents if they are small. So a small operation takes one message each way, and no other begins
// before all are known to run the same. Room for it is made two operations ahead.
// Threads: one at a time, the one that runs the operation.
class LinkAgreement {
 public:
  LinkAgreement(World world, Links& links);

  // Makes room for the first messages of the others. Called once, before the first operation.
  Status open();

  // Sends what this rank runs to all others, and receives theirs. Ok: all run the same.
  // Errors: kInvalidArgument (they do not), kCorrupt (another number or size than its own),
  //         kTimeout, kPeerLost, kCancelled.
  Status agree(const Request& request, Time deadline);
  // Returns the contents that arrived with the agreement from another rank. Valid until end().
  const std::byte* contents(int from) const;
  // Ends an operation that succeeded.
  void end();

 private:
  Status invite(uint64_t operation);
  Status announce(const Request& request, Time deadline);
  Status hear(Time deadline);
  Status check_sequence(uint64_t operation, int rank) const;
  const std::string& id_of(int rank) const { return world_.members[static_cast<size_t>(rank)].id; }
  uint64_t half_of(uint64_t operation) const;
  std::byte* outbox(uint64_t operation, int to) const;
  std::byte* inbox(uint64_t operation, int from) const;

  const World world_;
  Links& links_;
  const std::unique_ptr<std::byte[]> outbox_memory_;  // of two operations
  const std::unique_ptr<std::byte[]> inbox_memory_;   // of two operations
  const std::unique_ptr<Place> outboxes_[2];
  const std::unique_ptr<Place> inboxes_[2];
  uint64_t operation_ = 0;  // number of the running one, from 1
  Status invitation_;       // the result of the last invite()
};

// Returns whether the contents of an operation are sent with the agreement.
bool comes_along(const Request& request);

// Finds the block of `from`'s input that `to` needs as a part of its output. It is at most one
// block, as no rank sends another more. Returns false if there is none.
bool gives(const Signature& signature, int from, int to, int ranks, uint64_t& in_block);

}  // namespace ffdl::comm
