#include "benchmarks/data/reading_job.h"

#include <chrono>

#include "benchmarks/limits.h"

namespace ffdl::bench {

Result<std::unique_ptr<Reading>> Reading::open(const std::string& path, const Shape& shape,
                                               const Options& options) {
  auto reading = std::make_unique<Reading>();
  reading->batch_samples_ = shape.batch;
  if (options.into) reading->memory_.resize(shape.batch * shape.record_bytes);
  FFDL_ASSIGN_OR_RETURN(reading->source_, open_records({path}, {.record_bytes = shape.record_bytes},
                                                       {.mapped = options.mapped}));
  const bool is_global = options.order == SampleOrder::kGlobal;
  FFDL_ASSIGN_OR_RETURN(reading->ledger_,
                        make_session_ledger({.samples = reading->source_->samples(),
                                             .partition_samples = shape.partition,
                                             .epochs = 0,
                                             .shuffle = options.shuffle,
                                             .window_partitions = options.window_partitions,
                                             .order = options.order,
                                             .batch_samples = is_global ? shape.batch : 0}));
  World world;
  world.members = {{"worker", 1}};
  reading->ledger_->participant()->world_changed(world);
  FFDL_ASSIGN_OR_RETURN(
      reading->pipeline_,
      DataPipeline::create(*reading->source_, *reading->ledger_, options.pipeline));
  return reading;
}

Result<const DataBatch*> Reading::next() {
  FFDL_RETURN_IF_ERROR(memory_.empty() ? pipeline_->next(batch_, batch_samples_)
                                       : pipeline_->next_into(memory_, batch_, batch_samples_));
  std::vector<std::byte>& record = record_;
  record.resize(ledger_->participant()->record_bytes());
  ledger_->participant()->write_record(record);
  ledger_->participant()->applied(++step_, StepRecords(record, record.size(), record.size()));
  return &batch_;
}

Result<uint64_t> Reading::sum_of_batch() {
  FFDL_ASSIGN_OR_RETURN(const DataBatch* const batch, next());
  uint64_t sum = 0;
  for (const auto& sample : batch->samples) sum += sum_of(sample);
  return sum;
}

Result<double> Reading::epoch(uint64_t expected) {
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t now = ledger_->epoch();
  uint64_t sum = 0;
  while (ledger_->epoch() == now) {
    FFDL_ASSIGN_OR_RETURN(const uint64_t part, sum_of_batch());
    sum += part;
  }
  const auto end = std::chrono::steady_clock::now();
  if (sum == expected) return std::chrono::duration<double>(end - begin).count();
  return Status(StatusCode::kInternal, "read an epoch: its bytes have another sum than the file");
}

Result<std::vector<uint64_t>> Reading::order() {
  std::vector<uint64_t> all;
  for (const uint64_t now = ledger_->epoch(); ledger_->epoch() == now;) {
    FFDL_RETURN_IF_ERROR(sum_of_batch().status());
    all.insert(all.end(), batch_.indices.begin(), batch_.indices.end());
  }
  return all;
}

}  // namespace ffdl::bench
