#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "benchmarks/harness/resident.h"
#include "ffdl/batch_ring.h"

namespace ffdl::bench {

// Reads a file of small records, epoch after epoch, through a ring that another process fills.
class RingReading {
 public:
  static Result<std::unique_ptr<RingReading>> open(const std::string& path, uint64_t records);
  ~RingReading();
  RingReading(const RingReading&) = delete;
  RingReading& operator=(const RingReading&) = delete;

  // Seconds of one epoch, which must give this sum.
  Result<double> epoch(uint64_t expected);

 private:
  RingReading() = default;

  uint64_t records_ = 0;  // of an epoch
  std::unique_ptr<Resident> reader_{};
  std::unique_ptr<BatchConsumer> consumer_{};
};

// The process that fills it, to its end: '--role fill-ring FILE'.
int play_fill_ring(const std::string& path);

}  // namespace ffdl::bench
