#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/data/record_file.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"

namespace ffdl::bench {

// A job of one member that reads a file, epoch after epoch.
class Reading {
 public:
  struct Options {
    bool mapped = false;
    DataPipelineOptions pipeline{};
    Shuffle shuffle = Shuffle::kSamples;
    SampleOrder order = SampleOrder::kOnDemand;
    uint64_t window_partitions = 1;
    bool into = false;  // into memory of this job
  };
  static Result<std::unique_ptr<Reading>> open(const std::string& path, const Shape& shape,
                                               const Options& options);

  // Returns the next batch, valid until the call after it. The step that uses it is already
  // applied.
  Result<const DataBatch*> next();
  Result<uint64_t> sum_of_batch();
  // Returns the seconds of one epoch. Checks that the samples have this sum.
  Result<double> epoch(uint64_t expected);
  // Returns the order of an epoch, for a reader without a ledger.
  Result<std::vector<uint64_t>> order();

  const DataSource& source() const { return *source_; }

 private:
  std::unique_ptr<DataSource> source_{};
  std::unique_ptr<SampleLedger> ledger_{};
  std::unique_ptr<DataPipeline> pipeline_{};
  std::vector<std::byte> memory_{};  // for a batch; empty: samples stay in the pipeline's memory
  DataBatch batch_{};
  uint64_t batch_samples_ = 0;
  std::vector<std::byte> record_{};
  uint64_t step_ = 0;
};

}  // namespace ffdl::bench
