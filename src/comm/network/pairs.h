#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/network/links.h"
#include "comm/operation/request.h"

namespace ffdl::comm {

// Runs send and recv over links. The two ranks first exchange what they run. Then the message goes
// in pieces, two of them in transfer at a time.
// Threads: one at a time, the one that runs the operation.
class LinkPairs {
 public:
  LinkPairs(World world, Links& links);

  // Errors: kInvalidArgument (the two disagree), kTimeout, kPeerLost, kCancelled.
  Status run(const Request& request, Time deadline);
  // Releases the buffers of a failed operation: no thread touches them afterwards.
  void let_go();

 private:
  // A part of the message in transfer. The place comes last, so that it is destroyed before its
  // memory.
  struct Piece {
    uint64_t begin = 0;  // in bytes
    uint64_t bytes = 0;
    std::vector<std::byte> room;  // used if the caller's buffer is not contiguous
    std::unique_ptr<Place> place;
  };

  Status agree(const Request& request, Time deadline);
  // Waits until the deadline: both ranks send or both receive, so no message follows.
  Status wait_in_vain(Time deadline);
  Status late() const;
  Status begin_piece(const Request& request, uint64_t number, Piece& piece);
  Status end_piece(const Request& request, Piece& piece, Time deadline);

  const World world_;
  Links& links_;
  Signature mine_;
  Signature theirs_;
  std::unique_ptr<Place> told_;   // of mine_
  std::unique_ptr<Place> heard_;  // of theirs_
  Piece pieces_[2];
};

}  // namespace ffdl::comm
