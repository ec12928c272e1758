#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/linked_communicator.h"

namespace ffdl::comm {

// Hosts of several ranks each: shared memory inside a host, links between them. A large all_reduce
// goes in three steps: the ranks of a host add up and each gets a piece of the sum; those with the
// same piece add theirs up across the hosts; the ranks of a host give each other what they got.
// Each byte of a sum leaves a host once. All else goes as between any hosts.
class HierarchicalCommunicator final : public LinkedCommunicator {
 public:
  // `inside` is the communicator of the ranks of this host. They must be same_subtrees(): other
  // hosts have to send the values of all their ranks, as LinkedCommunicator does.
  HierarchicalCommunicator(const World& world, std::unique_ptr<Links> links,
                           std::unique_ptr<Communicator> inside);
  ~HierarchicalCommunicator() override;

  Backend backend() const override { return Backend::kHierarchical; }

 protected:
  Status run_large(const Request& request, Time deadline) override;
  Status run_pair(const Request& request, Time deadline) override;
  void stop() override;

 private:
  Status all_reduce(const Request& request, Time deadline);
  void* place_of_piece(const Request& request, uint64_t count, DType type);
  // The input as float32.
  Buffer widened(const Request& request);

  const std::unique_ptr<Communicator> inside_;
  std::vector<int> across_;        // the ranks with our piece, one per host
  std::vector<uint16_t> narrow_;   // float16 or bfloat16: the input, then our piece of the sum
  std::vector<float> wide_;        // the same input
  std::vector<std::byte> piece_;   // of the sum, where it cannot lie in the output
  std::vector<std::byte> filler_;  // makes pieces equal
};

// Whether each host has the same number of ranks, a power of two, one after the other; `hosts`
// tells by rank. Then what a host adds up is a subtree of the tree over all ranks.
bool same_subtrees(std::span<const int> hosts);

}  // namespace ffdl::comm
