#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/data/data_source.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

struct DataPipelineOptions {
  // Threads that read ahead what the ledger's leases() and forecast() return; 0: next() reads.
  int threads = 1;
  // The maximum size of data that is read, or being read, beyond the batch in use. At least one
  // block is read ahead (4 to 8 MiB, at least one sample). Data of mapped files counts, too.
  uint64_t read_ahead_bytes = uint64_t{64} << 20;
  // Stores the samples of a batch contiguously (DataBatch::bytes).
  bool contiguous = false;
  // The memory for data that is read, such as PinnedMemory (sample_batch.h). It outlives the
  // pipeline. Null: the heap. Samples of mapped files stay in the files.
  SampleMemory* memory = nullptr;
};

// The samples of one step. The spans of a pipeline's batch are valid until the next call of next()
// or next_into(). Bytes from next_into() stay in the caller's memory.
struct DataBatch {
  std::vector<SampleRange> ranges{};    // the result of the ledger's take()
  std::span<const uint64_t> indices{};  // the position of each sample in the data set
  std::span<const std::span<const std::byte>> samples{};
  // All samples, with DataPipelineOptions::contiguous, from next_into() or from a BatchConsumer.
  std::span<const std::byte> bytes{};
  // The corrupt samples of `ranges` that are left out here (FileOptions::skip_corrupt). The step
  // commits them, too.
  uint64_t skipped = 0;
  // The number of this batch in a BatchRing, counted from 0; set by a BatchConsumer.
  uint64_t number = 0;
};

struct DataPipelineStats {
  uint64_t blocks = 0;      // read
  uint64_t waited = 0;      // blocks that next() waited for, or read itself
  uint64_t not_needed = 0;  // blocks read ahead whose samples went to another member
  uint64_t straight = 0;    // batches that next_into() read in place, without a block
};

// Reads the samples that the ledger assigns to this worker, ahead of the training thread. The
// pipeline's whole state is in the ledger. So it follows take() after a change of the world, a
// repeated step and a restored checkpoint. With a session:
//   DataPipeline::create(source, *ledger, {})
//   while (!ledger->is_done()) {
//     status = pipeline->next(batch, 256);       // may be empty: end the step even then
//     compute_gradients(batch.samples);
//     session->end_step(ledger->taken());
//   }
// Threads: next() and next_into() on the ledger's thread; stats() from any.
// Owns: its threads, "ffdl-read", on which the source reads. Borrows source and ledger, which must
//       outlive the pipeline.
// Blocks: next() and next_into() until the samples are read.
// Errors: next() and next_into(): those of the ledger's take() and of the source's read(). Another
//         call for the same step reads the failed samples again.
class FFDL_API DataPipeline final {
 public:
  // Creates a pipeline. Errors: kInvalidArgument (the ledger has another number of samples, or
  // `threads` is out of range), kExhausted (no thread).
  static Result<std::unique_ptr<DataPipeline>> create(const DataSource& source,
                                                      SampleLedger& ledger,
                                                      const DataPipelineOptions& options);
  ~DataPipeline();
  DataPipeline(const DataPipeline&) = delete;
  DataPipeline& operator=(const DataPipeline&) = delete;

  // Calls the ledger's take() with `count`, and returns these samples in `batch`.
  Status next(DataBatch& batch, uint64_t count = SampleLedger::kAll);
  // Returns samples as next() does, and stores them contiguously from the front of `to`, which is
  // any memory of the caller. With reading threads it copies each sample once, out of a block. With
  // threads: 0, samples of 4 KiB and more are not read ahead: DataSource::read_into() reads them
  // into place. Smaller samples are copied out of a block, which is read as a whole. After an error
  // the contents of `to` are undefined.
  // Errors: also kInvalidArgument (`to` is too small): the next call returns the same samples.
  Status next_into(std::span<std::byte> to, DataBatch& batch, uint64_t count = SampleLedger::kAll);

  DataPipelineStats stats() const;

 private:
  class Impl;
  explicit DataPipeline(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
