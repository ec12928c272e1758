#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "data/formats/contiguous_samples.h"
#include "data/formats/read_plan.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/data_source.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Samples that are read together. The caller that got it from BlockReader::get() may read all of
// it.
struct Block {
  enum class State { kWanted, kReading, kReady };

  explicit Block(SampleMemory* from = nullptr) : memory(from) {}

  SampleRange range{};
  State state = State::kWanted;  // guarded by the mutex of its BlockReader
  bool used = false;             // guarded by that mutex
  // Valid once the block is ready:
  Status status{};
  std::vector<uint64_t> indices{};
  std::span<const std::span<const std::byte>> samples{};  // without data: skipped
  size_t skipped = 0;                                     // number of skipped samples
  SampleBatch memory;
  SampleSpans together{};  // storage of `samples` with contiguous
  bool touched = false;    // by the caller that uses it
};

// Reads blocks of samples ahead, on its own threads and on the thread of a caller that needs one.
// Threads: one at a time; counts() from any. Owns: its threads, and the blocks, whose memory it
// reuses.
class BlockReader {
 public:
  // Shared by the list of wanted blocks, the reading thread and the user of the block. Any of them
  // may be the last to release it.
  using BlockPtr = std::shared_ptr<Block>;

  struct Counts {
    uint64_t read = 0;
    uint64_t waited = 0;      // get() calls that waited or read
    uint64_t not_needed = 0;  // read, and dropped before any get()
  };

  // With contiguous, the samples of a block are copied into one buffer, provided that a thread
  // reads ahead. Without threads they are copied in batches, which are smaller and stay in the
  // caches.
  BlockReader(const DataSource& source, const SampleLedger& ledger,
              const DataPipelineOptions& options);
  ~BlockReader();
  // Returns kExhausted if not all of its threads could start.
  const Status& begun() const { return begun_; }

  // Returns the ranges of the blocks that exist or are wanted.
  std::vector<SampleRange> known() const;
  // Sets the blocks that are needed next, in this order. `known` is an index into known(). Drops
  // all other blocks.
  void want(const std::vector<PlannedBlock>& plan);
  // Returns the block that has the first sample of `part`: waits until it is read, or reads it. If
  // no block has it, reads a block of `part` up to the next existing block.
  BlockPtr get(const SampleRange& part);
  // Drops the block. It is read again when it is wanted again.
  void forget(const BlockPtr& block);

  Counts counts() const;

 private:
  void run();
  void read_unlocked(const BlockPtr& block) FFDL_REQUIRES(mutex_);
  BlockPtr first_wanted() const FFDL_REQUIRES(mutex_);
  BlockPtr make_block(const SampleRange& range) FFDL_REQUIRES(mutex_);
  void drop(BlockPtr block) FFDL_REQUIRES(mutex_);
  Status fill(Block& block) const;

  const DataSource& source_;
  const SampleLedger& ledger_;
  SampleMemory* const memory_;
  const bool one_buffer_;
  mutable base::Mutex mutex_;
  base::Condition wanted_;
  base::Condition ready_;
  std::vector<BlockPtr> blocks_ FFDL_GUARDED_BY(mutex_);
  std::vector<BlockPtr> spare_ FFDL_GUARDED_BY(mutex_);
  Counts counts_ FFDL_GUARDED_BY(mutex_);
  bool stopping_ FFDL_GUARDED_BY(mutex_) = false;
  Status begun_;
  std::vector<base::Thread> threads_;  // last: they use all of the above
};

// Loads a block into the caches of this processor on its first use, if its source asked for that.
void touch(Block& block);

}  // namespace ffdl::data
