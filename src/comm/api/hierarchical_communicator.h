#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/network/communicator.h"

namespace ffdl::comm {

// Connects hosts of several ranks each: shared memory inside a host, links between hosts. A large
// all_reduce has three steps. The ranks of a host reduce, and each receives a piece of the sum.
// Ranks with the same piece reduce it across the hosts. The ranks of a host gather the pieces. Each
// byte of a sum leaves a host once. All other operations run as in LinkedCommunicator.
class HierarchicalCommunicator final : public LinkedCommunicator {
 public:
  // `inside` is the communicator of the ranks of this host. The hosts must be same_subtrees():
  // otherwise each host has to send the values of all its ranks, as LinkedCommunicator does.
  HierarchicalCommunicator(const World& world, std::unique_ptr<Links> links,
                           std::unique_ptr<Communicator> inside);
  ~HierarchicalCommunicator() override;

 protected:
  Status run_large(const Request& request, Time deadline) override;
  Status run_pair(const Request& request, Time deadline) override;
  void stop() override;

 private:
  Status all_reduce(const Request& request, Time deadline);
  void* place_of_piece(const Request& request, uint64_t count, DType type);
  // Returns the input as float32.
  Buffer widened(const Request& request);

  const std::unique_ptr<Communicator> inside_;
  std::vector<int> across_;        // the ranks with the same piece, one per host
  std::vector<uint16_t> narrow_;   // float16 or bfloat16: the input, then the piece of the sum
  std::vector<float> wide_;        // the same input as float32
  std::vector<std::byte> piece_;   // of the sum, when the output has no place for it
  std::vector<std::byte> filler_;  // pads the pieces to equal size
};

// Returns whether each host has the same number of ranks, a power of two, and its ranks are
// consecutive. `hosts` holds the host of each rank. The sum of a host is then a subtree of the tree
// over all ranks.
bool same_subtrees(std::span<const int> hosts);

}  // namespace ffdl::comm
