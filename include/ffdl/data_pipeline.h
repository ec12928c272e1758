#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/data_source.h"
#include "ffdl/export.h"
#include "ffdl/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

struct DataPipelineOptions {
  // That read ahead what the ledger's leases and forecast() say; 0: next() reads.
  int threads = 1;
  // Read or being read beyond the batch that is in use, at most, as long as that is more than one
  // block (4 to 8 MiB, one sample at least). Mapped files count as well.
  uint64_t read_ahead_bytes = uint64_t{64} << 20;
  // The samples of a batch lie one behind the other (DataBatch::bytes).
  bool one_buffer = false;
  // What is read lies there, such as in PinnedMemory (sample_memory.h), which outlives the
  // pipeline; null: on the heap. Samples of mapped files stay where they are.
  SampleMemory* memory = nullptr;
};

// The samples of one step. What it points at stays until the next call of next() or next_into();
// the bytes that next_into() gave are in the caller's memory, and stay there.
struct DataBatch {
  std::vector<SampleRange> ranges{};    // what the ledger's take() said
  std::span<const uint64_t> indices{};  // where each sample lies in the data set
  std::span<const std::span<const std::byte>> samples{};
  // All of them, with one_buffer or from next_into().
  std::span<const std::byte> bytes{};
  // Samples of `ranges` that are corrupt and left out here (OnCorrupt::kSkip). The step commits
  // them all the same.
  uint64_t skipped = 0;
};

struct DataPipelineStats {
  uint64_t blocks = 0;      // read
  uint64_t waited = 0;      // that next() waited for, or read itself
  uint64_t not_needed = 0;  // read ahead, and another's when their turn came
  uint64_t straight = 0;    // batches that next_into() read where they belong, without a block
};

// The samples of each step: what the ledger says that this worker computes its gradient from, read
// ahead off the training thread. It has no state but the ledger's: a change of the world, a step
// that is repeated and a restored checkpoint are followed by what take() says then. With a session:
//   DataPipeline::create(source, *ledger, {})
//   while (!ledger->is_done()) {
//     status = pipeline->next(batch, 256);       // no samples: take part in the step with nothing
//     compute_gradients(batch.samples);
//     session->end_step(ledger->taken());
//   }
// Threads: next() and next_into() on that of the ledger; stats() from any.
// Owns: its threads, "ffdl-read", on which the source reads. Borrows source and ledger, which must
//       outlive it.
// Blocks: next() and next_into() until the samples are read.
// Errors: next() and next_into(): those of the ledger's take() and of the source's read(); asked
//         again for the same step, the samples that failed are read again.
class FFDL_API DataPipeline final {
 public:
  // Errors: kInvalidArgument (the ledger is of another number of samples).
  static Result<std::unique_ptr<DataPipeline>> create(const DataSource& source,
                                                      SampleLedger& ledger,
                                                      const DataPipelineOptions& options);
  ~DataPipeline();
  DataPipeline(const DataPipeline&) = delete;
  DataPipeline& operator=(const DataPipeline&) = delete;

  // Takes up to `count` samples from the ledger and gives them.
  Status next(DataBatch& batch, uint64_t count = SampleLedger::kAll);
  // The same in memory of the caller, of any kind: the samples lie one behind the other from the
  // front of `to`. Where threads read ahead they are copied there once, out of a block. Where none
  // does (threads: 0), samples of 4 KiB and more are read there by DataSource::read_into(), and not
  // at all before; smaller ones are copied out of a block, which is read at once. After an error
  // `to` holds nothing of use.
  // Errors: also kInvalidArgument (there is no room): nothing is lost, the same samples are due.
  Status next_into(std::span<std::byte> to, DataBatch& batch, uint64_t count = SampleLedger::kAll);

  DataPipelineStats stats() const;

 private:
  class Impl;
  explicit DataPipeline(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
