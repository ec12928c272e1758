#include "ffdl/data/data_pipeline.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "data/formats/block_reader.h"
#include "data/formats/contiguous_samples.h"
#include "data/formats/read_all.h"
#include "data/formats/read_plan.h"

namespace ffdl {
namespace {

using base::invalid_argument;

data::ReadRules read_rules_of(const SampleFormat& format, const DataPipelineOptions& options) {
  const uint64_t bytes = format.bytes == 0 ? base::kUnknownSampleBytes : format.bytes;
  data::ReadRules rules;
  rules.block_samples = std::max<uint64_t>(1, base::kReadBlockBytes / bytes);
  if (options.threads > 0) {
    rules.ahead_samples = std::max(rules.block_samples, options.read_ahead_bytes / bytes);
  }
  return rules;
}

// Reports whether batches are read directly into the caller's memory. Small samples go through
// blocks instead, which are larger than a batch.
bool reads_straight(const SampleFormat& format, const DataPipelineOptions& options) {
  return options.threads == 0 && (format.bytes == 0 || format.bytes >= base::kReadInPlaceBytes);
}

}  // namespace

class DataPipeline::Impl {
 public:
  Impl(const DataSource& source, SampleLedger& ledger, const DataPipelineOptions& options)
      : source_(source),
        ledger_(ledger),
        options_(options),
        rules_(read_rules_of(source.format(), options)),
        reads_straight_(reads_straight(source.format(), options)),
        gathered_(options.memory),
        reader_(source, ledger, options) {}

  const Status& begun() const { return reader_.begun(); }

  Status next(DataBatch& batch, uint64_t count) {
    FFDL_RETURN_IF_ERROR(begin(batch, count));
    FFDL_RETURN_IF_ERROR(append_all(batch));
    if (options_.contiguous) {
      own(batch);
      batch.bytes = data::put_together(samples_, gathered_);
    }
    return {};
  }

  Status next_into(std::span<std::byte> to, DataBatch& batch, uint64_t count) {
    FFDL_RETURN_IF_ERROR(begin(batch, count));
    if (reads_straight_) return read_straight(to, batch);
    FFDL_RETURN_IF_ERROR(append_all(batch));
    FFDL_RETURN_IF_ERROR(
        data::check_room(batch.samples.size(), data::bytes_together(batch.samples), to.size()));
    own(batch);
    batch.bytes = data::put_together(samples_, to);
    return {};
  }

  DataPipelineStats stats() const {
    const data::BlockReader::Counts counts = reader_.counts();
    return {counts.read, counts.waited, counts.not_needed,
            straight_.load(std::memory_order_relaxed)};
  }

 private:
  Status begin(DataBatch& batch, uint64_t count) {
    gathered_.clear();
    samples_.clear();
    indices_.clear();
    batch = {};
    FFDL_ASSIGN_OR_RETURN(batch.ranges, ledger_.take(count));
    return {};
  }

  Status append_all(DataBatch& batch) {
    // Keeps the blocks of the last batch until here, and drops those that are no longer needed.
    reader_.want(data::plan_reads(held_and_forecast(), ledger_.taken(), reader_.known(), rules_));
    for (const SampleRange& range : batch.ranges) FFDL_RETURN_IF_ERROR(append(range, batch));
    return {};
  }

  Status read_straight(std::span<std::byte> to, DataBatch& batch) {
    reader_.want({});  // blocks that next() has read are not needed
    FFDL_ASSIGN_OR_RETURN(const auto indices, ledger_.sample_indices(batch.ranges));
    FFDL_ASSIGN_OR_RETURN(batch.bytes, source_.read_into(indices, to, gathered_));
    straight_.fetch_add(1, std::memory_order_relaxed);
    list(gathered_.samples(), indices, batch);
    return {};
  }

  // Returns held and forecast leases. Joins neighbours of several steps, so that they are read
  // together.
  std::vector<SampleRange> held_and_forecast() {
    std::vector<SampleRange> all = ledger_.leases();
    if (rules_.ahead_samples == 0) return all;
    const size_t held = all.size();
    for (const std::vector<SampleRange>& step : ledger_.forecast(base::kStepsReadAhead)) {
      for (const SampleRange& range : step) {
        const bool goes_on = all.size() > held && all.back().partition == range.partition &&
                             all.back().end == range.begin;
        if (goes_on) {
          all.back().end = range.end;
        } else {
          all.push_back(range);
        }
      }
    }
    return all;
  }

  Status append(const SampleRange& range, DataBatch& batch) {
    for (uint64_t at = range.begin; at < range.end;) {
      SampleRange needed{range.partition, at, range.end};
      auto block = reader_.get(needed);
      needed.end = std::min(needed.end, block->range.end);
      // The failed sample may belong to another step, to another member, or to a later part of this
      // step. So the needed part is read alone, and other parts where they are used. It may take
      // several rounds, since overlapping leases have overlapping blocks.
      while (!block->status.ok() && block->range != needed) {
        reader_.forget(block);
        block = reader_.get(needed);
        needed.end = std::min(needed.end, block->range.end);
      }
      if (!block->status.ok()) {
        reader_.forget(block);
        return block->status;
      }
      data::touch(*block);
      add(*block, static_cast<size_t>(at - block->range.begin),
          static_cast<size_t>(needed.end - block->range.begin), batch);
      at = needed.end;
    }
    return {};
  }

  // Adds samples [begin, end) of a block. A batch within one block refers to the lists of the
  // block.
  void add(const data::Block& block, size_t begin, size_t end, DataBatch& batch) {
    const auto part = [&](const auto& all) { return std::span(all).subspan(begin, end - begin); };
    const auto samples = part(block.samples);
    const auto indices = part(block.indices);
    if (block.skipped == 0 && batch.samples.empty()) {
      batch.samples = samples;
      batch.indices = indices;
      return;
    }
    list(samples, indices, batch);
  }

  // Appends the samples that are not skipped.
  void list(std::span<const std::span<const std::byte>> samples, std::span<const uint64_t> indices,
            DataBatch& batch) {
    own(batch);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].data() == nullptr) {
        ++batch.skipped;
        continue;
      }
      samples_.push_back(samples[i]);
      indices_.push_back(indices[i]);
    }
    batch.samples = samples_;
    batch.indices = indices_;
  }

  // Copies the lists of the batch into this object, unless they are here already.
  void own(DataBatch& batch) {
    if (batch.samples.data() == samples_.data()) return;
    samples_.assign(batch.samples.begin(), batch.samples.end());
    indices_.assign(batch.indices.begin(), batch.indices.end());
    batch.samples = samples_;
    batch.indices = indices_;
  }

  const DataSource& source_;
  SampleLedger& ledger_;
  const DataPipelineOptions options_;
  const data::ReadRules rules_;
  const bool reads_straight_;
  SampleBatch gathered_;  // samples of the last batch, if they are not in blocks
  // Lists of the last batch, unless it refers to those of one block.
  data::SampleSpans samples_{};
  std::vector<uint64_t> indices_{};
  std::atomic<uint64_t> straight_ = 0;  // a count, which orders nothing
  data::BlockReader reader_;
};

Result<std::unique_ptr<DataPipeline>> DataPipeline::create(const DataSource& source,
                                                           SampleLedger& ledger,
                                                           const DataPipelineOptions& options) {
  if (ledger.samples() != source.samples()) {
    return invalid_argument(
        "make a data pipeline: the ledger is of {} samples and the data source has {}; make the "
        "ledger with samples = source.samples()",
        ledger.samples(), source.samples());
  }
  if (options.threads < 0 || options.threads > base::kReadThreadsMax) {
    return invalid_argument("make a data pipeline: threads is {}; give 0 to {}", options.threads,
                            base::kReadThreadsMax);
  }
  auto impl = std::make_unique<Impl>(source, ledger, options);
  FFDL_RETURN_IF_ERROR(impl->begun());
  return std::unique_ptr<DataPipeline>(new DataPipeline(std::move(impl)));
}

DataPipeline::DataPipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataPipeline::~DataPipeline() = default;

Status DataPipeline::next(DataBatch& batch, uint64_t count) { return impl_->next(batch, count); }
Status DataPipeline::next_into(std::span<std::byte> to, DataBatch& batch, uint64_t count) {
  return impl_->next_into(to, batch, count);
}
DataPipelineStats DataPipeline::stats() const { return impl_->stats(); }

}  // namespace ffdl
