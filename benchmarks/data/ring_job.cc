#include "benchmarks/data/ring_job.h"

#include <chrono>

#include "benchmarks/data/reading_job.h"
#include "benchmarks/limits.h"

namespace ffdl::bench {
namespace {

Time soon() { return deadline_in(std::chrono::seconds(60)); }

}  // namespace

Result<std::unique_ptr<RingReading>> RingReading::open(const std::string& path, uint64_t records) {
  auto reading = std::unique_ptr<RingReading>(new RingReading);
  reading->records_ = records;
  FFDL_ASSIGN_OR_RETURN(reading->reader_, Resident::start_self({"--role", "fill-ring", path}));
  FFDL_ASSIGN_OR_RETURN(const std::string place, reading->reader_->ask(""));
  FFDL_ASSIGN_OR_RETURN(reading->consumer_, BatchConsumer::attach(place));
  return reading;
}

RingReading::~RingReading() {
  if (reader_ == nullptr) return;
  reader_->kill_now();
  reader_->reap();
}

Result<double> RingReading::epoch(uint64_t expected) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t sum = 0;
  for (uint64_t given = 0; given < records_;) {
    FFDL_ASSIGN_OR_RETURN(const auto batch, consumer_->next(soon()));
    for (const auto& sample : batch->samples) sum += sum_of(sample);
    given += batch->samples.size();
  }
  const auto end = std::chrono::steady_clock::now();
  if (sum == expected) return std::chrono::duration<double>(end - begin).count();
  return Status(StatusCode::kInternal, "read an epoch: its bytes have another sum than the file");
}

int play_fill_ring(const std::string& path) {
  const auto reading = Reading::open(path, kSmall, {.mapped = true, .pipeline = {.threads = 0}});
  const BatchRingOptions options = {.slots = 8,
                                    .slot_bytes = 2 * kSmall.batch * kSmall.record_bytes};
  const auto ring = BatchRing::create({}, options);
  if (!reading.ok() || !ring.ok()) return 1;
  answer((*ring)->place());
  while (true) {
    const auto batch = (*reading)->next();
    if (!batch.ok() || !(*ring)->put(**batch, soon()).ok()) return 1;
  }
}

}  // namespace ffdl::bench
