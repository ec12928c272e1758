#pragma once

#include <memory>
#include <vector>

#include "comm/links.h"
#include "comm/request.h"

namespace ffdl::comm {

// The first message of every operation, from each rank to each other: what the sender runs, and its
// contents where they are small. So a small operation is over after one message each way, and no
// other begins before all are known to run the same. Room for it is made two operations ahead.
// Threads: one at a time, that which runs the operation.
class LinkAgreement {
 public:
  LinkAgreement(World world, Links& links);

  // Makes room for the first messages of the others. Once, before the first operation.
  Status open();

  // Tells all others what this rank runs and learns the same of them. Ok: all run the same.
  // Errors: kInvalidArgument (they do not), kTimeout, kPeerLost, kCancelled.
  Status agree(const Request& request, Time deadline);
  // The contents that came along from another rank, until end().
  const std::byte* contents(int from) const;
  // The operation has ended well.
  void end();

 private:
  Status invite(uint64_t operation);
  Status announce(const Request& request, Time deadline);
  Status hear(Time deadline);
  uint64_t half_of(uint64_t operation) const;
  std::byte* outbox(uint64_t operation, int to) const;
  std::byte* inbox(uint64_t operation, int from) const;

  const World world_;
  Links& links_;
  const std::unique_ptr<std::byte[]> outbox_memory_;  // of two operations
  const std::unique_ptr<std::byte[]> inbox_memory_;   // of two operations
  const std::unique_ptr<Place> outboxes_[2];
  const std::unique_ptr<Place> inboxes_[2];
  uint64_t operation_ = 0;  // number of the one that runs, from 1
  Status invitation_;       // what became of the last one
};

// Whether the contents of an operation come along with the agreement.
bool comes_along(const Request& request);

// The elements of the sender's input that `to` needs: it is part of what `to` gets. At most one
// block, as each rank gives another no more. False: none.
bool gives(const Signature& signature, int from, int to, int ranks, uint64_t& in_block);

}  // namespace ffdl::comm
