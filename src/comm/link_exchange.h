#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "comm/link_agreement.h"
#include "comm/pieces.h"

namespace ffdl::comm {

// What an operation is, as messages between ranks, once all are known to run the same. What moves
// where is in parts.h; of a large sum each rank owns a piece, which it receives from all, adds up
// along the tree, and sends to all. docs/decisions/0007-collectives.md says why.
// Threads: one at a time, that which runs the operation.
class LinkExchange {
 public:
  LinkExchange(World world, Links& links);

  // An operation whose contents came along with the agreement.
  void finish_small(const Request& request, const LinkAgreement& agreement);
  // Any other. Errors: kTimeout, kPeerLost, kCancelled.
  Status finish_large(const Request& request, Time deadline);
  // An all_reduce or reduce among some ranks, of whom this is one, in ascending order. The tree is
  // that over `group`.
  Status add_up(const Request& request, std::span<const int> group, Time deadline);
  // After a failure: nobody touches the buffers of the operation any more.
  void let_go();

 private:
  // A part of each block while it is on its way. What moves goes before the memory that it is in.
  struct Chunk {
    uint64_t begin = 0;  // in elements of a block
    uint64_t count = 0;
    Piece own{};                       // of a sum
    const std::byte* input = nullptr;  // of a sum: in one run of memory
    std::byte* output = nullptr;       // of a sum: null where it is not in one run
    std::vector<std::byte> given;      // input that is not in one run
    std::vector<std::byte> received;   // by source
    std::vector<std::byte> results;    // output that is not in one run
    std::vector<const std::byte*> from;
    std::vector<std::unique_ptr<Place>> in;
    std::vector<std::unique_ptr<Place>> out;
  };

  Status exchange(const Request& request, Time deadline);
  Status begin_exchange(const Request& request, bool straight, Chunk& chunk);
  Status end_exchange(const Request& request, Chunk& chunk, Time deadline);
  // Elements [begin, begin + count) of each block of the output, from those of every rank: null
  // where it gives nothing, or what it gave is in its place.
  void assemble(const Request& request, uint64_t begin, uint64_t count,
                std::span<const std::byte* const> from);

  Status give_inputs(const Request& request, std::span<const int> group, Chunk& chunk);
  Status reduce_own(const Request& request, std::span<const int> group, Chunk& chunk,
                    Time deadline);
  Status take_results(const Request& request, Chunk& chunk, Time deadline);

  Status send(const std::byte* data, uint64_t bytes, int to, Tag tag, Chunk& chunk);
  Status receive(std::byte* data, uint64_t bytes, int from, Tag tag, Chunk& chunk);
  Status wait(std::vector<std::unique_ptr<Place>>& places, Time deadline) const;

  const World world_;
  Links& links_;
  std::vector<int> everybody_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte> own_;      // input of a small operation
  std::vector<std::byte> reduced_;  // output that is not in one run
  std::array<Chunk, 3> chunks_;
};

}  // namespace ffdl::comm
