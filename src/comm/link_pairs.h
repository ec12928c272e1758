#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/links.h"
#include "comm/request.h"

namespace ffdl::comm {

// send and recv over links. The two first tell each other what they run; then the message goes in
// pieces, two of them on their way at a time.
// Threads: one at a time, that which runs the operation.
class LinkPairs {
 public:
  LinkPairs(World world, Links& links);

  // Errors: kInvalidArgument (the two disagree), kTimeout, kPeerLost, kCancelled.
  Status run(const Request& request, Time deadline);
  // After a failure: nobody touches the buffers of the operation any more.
  void let_go();

 private:
  // A part of the message while it is on its way. What moves goes before the memory that it is in.
  struct Piece {
    uint64_t begin = 0;  // in bytes
    uint64_t bytes = 0;
    std::vector<std::byte> room;  // where the caller's buffer is not in one run
    std::unique_ptr<Place> place;
  };

  Status agree(const Request& request, Time deadline);
  // Both send, or both receive: nothing comes of it until the deadline.
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
