#include "training/shares.h"

#include <numeric>
#include <span>

#include "layers/random.h"

namespace training {

std::vector<uint64_t> epoch_order(uint64_t seed, uint64_t epoch, const Share& share) {
  std::vector<uint64_t> order(share.size());
  std::iota(order.begin(), order.end(), 0U);
  // Combines three numbers by a draw from a generator of each, so that neighbours do not correlate.
  const uint64_t by_seed = layers::Random(seed).next();
  const uint64_t by_epoch = layers::Random(by_seed + epoch).next();
  layers::Random(by_epoch + share.partition).shuffle(std::span(order));
  return order;
}

}  // namespace training
