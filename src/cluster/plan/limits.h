#pragma once

#include <cstddef>
#include <cstdint>

// Limits for the values in files of plans, and for a simulation. With them no sum or product
// overflows and no loop runs for days.
namespace ffdl::cluster {

// Seconds: three hundred years. Clock times of traces fit, those in milliseconds do not.
inline constexpr double kSecondsMax = 1e10;

// Other numbers: sums of products of two of them are finite.
inline constexpr double kNumberMax = 1e150;

// A batch and the workers of one job; their product is computed.
inline constexpr int64_t kBatchMax = int64_t{1} << 40;
inline constexpr int kWorkersMax = 1'000'000;

// Nodes of one measured placement. Each rotation of a ring of them is compared.
inline constexpr size_t kPlacedNodesMax = 1000;

// Decisions of one simulation: two years of them, a minute apart. Each reads every job.
inline constexpr double kSimulatedDecisionsMax = 1'000'000;

}  // namespace ffdl::cluster
