#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "benchmarks/harness/resident.h"
#include "ffdl/data/batch_ring.h"

namespace ffdl::bench {

// Reads a file of small records, epoch after epoch, through a ring that another process fills.
class RingReading {
 public:
  static Result<std::unique_ptr<RingReading>> open(const std::string& path, uint64_t records);
  ~RingReading();
  RingReading(const RingReading&) = delete;
  RingReading& operator=(const RingReading&) = delete;

  // Returns the seconds of one epoch. Checks that the samples have this sum.
  Result<double> epoch(uint64_t expected);

 private:
  RingReading() = default;

  uint64_t records_ = 0;  // in an epoch
  std::unique_ptr<Resident> reader_{};
  std::unique_ptr<BatchConsumer> consumer_{};
};

// Fills the ring to its end, in a process of its own: '--role fill-ring FILE'.
int play_fill_ring(const std::string& path);

}  // namespace ffdl::bench
