#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "data/read_plan.h"
#include "data/together.h"
#include "ffdl/data_pipeline.h"
#include "ffdl/data_source.h"
#include "ffdl/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Samples that are read together. Who has it from BlockReader::get() may read all of it.
struct Block {
  enum class State { kWanted, kReading, kReady };

  explicit Block(SampleMemory* from = nullptr) : memory(from) {}

  SampleRange range{};
  State state = State::kWanted;  // under the mutex of its BlockReader
  bool used = false;             // the same
  // Once it is ready:
  Status status{};
  std::vector<uint64_t> indices{};
  std::span<const std::span<const std::byte>> samples{};  // without data: left out
  size_t skipped = 0;                                     // of those
  SampleBatch memory;
  SampleSpans together{};  // what `samples` are, with one_buffer
  bool touched = false;    // by who uses it
};

// Reads blocks of samples ahead, on threads of its own and on that of who needs one.
// Threads: one at a time; counts() from any. Owns: its threads, and blocks, whose memory it uses
// again.
class BlockReader {
 public:
  // Shared by the list of those that are wanted, the thread that reads one and who uses one: any of
  // them may be the last.
  using BlockPtr = std::shared_ptr<Block>;

  struct Counts {
    uint64_t read = 0;
    uint64_t waited = 0;      // get() waited, or read
    uint64_t not_needed = 0;  // were read, and dropped before anybody got them
  };

  // With one_buffer the samples of a block lie one behind the other, where there is a thread that
  // can see to it ahead: else less is copied in batches, which stay in the caches.
  BlockReader(const DataSource& source, const SampleLedger& ledger,
              const DataPipelineOptions& options);
  ~BlockReader();

  // What there is, or will be.
  std::vector<SampleRange> known() const;
  // What is needed from here on, in this order; places are those of known(). All else is dropped.
  void want(const std::vector<PlannedBlock>& plan);
  // The block that has the first sample of `part`: waits until it has been read, or reads it. Where
  // none has it, one of `part` alone, or of what is before the next block.
  BlockPtr get(const SampleRange& part);
  // It will be read again when it is wanted again.
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
  std::vector<base::Thread> threads_;  // last: they use all of the above
};

// Brings a block into the caches of this processor the first time, if its source said that it is
// worth it.
void touch(Block& block);

}  // namespace ffdl::data
