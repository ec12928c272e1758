#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/data/record_file.h"
#include "ffdl/data_pipeline.h"
#include "ffdl/partition_ledger.h"

namespace ffdl::bench {

// A job of one member that reads a file, epoch after epoch.
class Reading {
 public:
  struct Options {
    FileAccess access = FileAccess::kCopied;
    DataPipelineOptions pipeline{};
    Shuffle shuffle = Shuffle::kSamples;
    SampleOrder order = SampleOrder::kOnDemand;
    uint64_t window_partitions = 1;
    bool into = false;  // memory of its own
  };
  static Result<std::unique_ptr<Reading>> open(const std::string& path, const Shape& shape,
                                               const Options& options);

  // The next batch, until the one after it; the step that uses it is applied already.
  Result<const DataBatch*> next();
  Result<uint64_t> sum_of_batch();
  // Seconds of one epoch, which must give this sum.
  Result<double> epoch(uint64_t expected);
  // The order of an epoch, for who reads without a ledger.
  Result<std::vector<uint64_t>> order();

  const DataSource& source() const { return *source_; }

 private:
  std::unique_ptr<DataSource> source_{};
  std::unique_ptr<PartitionLedger> ledger_{};
  std::unique_ptr<DataPipeline> pipeline_{};
  std::vector<std::byte> memory_{};  // for a batch; empty: they lie where the pipeline has them
  DataBatch batch_{};
  uint64_t batch_samples_ = 0;
  std::vector<std::byte> record_{};
  uint64_t step_ = 0;
};

}  // namespace ffdl::bench
