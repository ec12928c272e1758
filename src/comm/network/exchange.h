#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "comm/network/agreement.h"
#include "comm/operation/buffer_pieces.h"

namespace ffdl::comm {

// Carries out an operation as messages between ranks, once all are known to run the same.
// collective_blocks.h defines which elements move. Each rank owns a piece of a large sum: it
// receives the piece from all, reduces it along the tree, and sends it to all.
// docs/decisions/0007-collectives.md explains why.
// Threads: one at a time, the one that runs the operation.
class LinkExchange {
 public:
  LinkExchange(World world, Links& links);

  // Finishes an operation whose contents arrived with the agreement.
  void finish_small(const Request& request, const LinkAgreement& agreement);
  // Runs any other operation. Errors: kTimeout, kPeerLost, kCancelled.
  Status finish_large(const Request& request, Time deadline);
  // Runs an all_reduce or reduce among the ranks of `group`. They are in ascending order and
  // include this rank. The tree is that over `group`.
  Status add_up(const Request& request, std::span<const int> group, Time deadline);
  // Releases the buffers of a failed operation: no thread touches them afterwards.
  void let_go();

 private:
  // A part of each block in transfer. Places come last, so that they are destroyed before their
  // memory.
  struct Chunk {
    uint64_t begin = 0;  // in elements of a block
    uint64_t count = 0;
    Piece own{};                       // of a sum
    const std::byte* input = nullptr;  // of a sum: contiguous
    std::byte* output = nullptr;       // of a sum: null if not contiguous
    std::vector<std::byte> given;      // input that is not contiguous
    std::vector<std::byte> received;   // by source
    std::vector<std::byte> results;    // output that is not contiguous
    std::vector<const std::byte*> from;
    std::vector<std::unique_ptr<Place>> in;
    std::vector<std::unique_ptr<Place>> out;
  };

  Status exchange(const Request& request, Time deadline);
  Status begin_exchange(const Request& request, bool straight, Chunk& chunk);
  Status end_exchange(const Request& request, Chunk& chunk, Time deadline);
  // Assembles elements [begin, begin + count) of each block of the output from those of every rank.
  // A null source has no data for it, or its data is already in place.
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
  std::vector<std::byte> reduced_;  // output that is not contiguous
  std::array<Chunk, 3> chunks_;
};

}  // namespace ffdl::comm
