#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/runtime.h"
#include "ffdl/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

struct StoreLedgerOptions {
  // SampleOrder::kOnDemand. Each commit is told on_stable by the worker that made it, and by the
  // one that makes the next: so all tell all of them, if all are given it.
  PartitionLedgerOptions data{};
  std::string job = "job";  // jobs of one store have different names
  std::string id{};         // of this worker; who joins under it ends the life before
  // How often the job began anew. Who joins first with a larger one puts the ledger back to `from`,
  // what save() gave with a checkpoint, or to its beginning; whoever is still there from before is
  // out. Who joins later with the same one gives the same `from`, or none.
  uint64_t lineage = 1;
  std::vector<std::byte> from{};
  // Who did not renew that long is taken for dead; it renews four times as often.
  Duration lease = std::chrono::seconds(5);
};

struct StoreLedgerStats {
  uint64_t commits = 0;    // of this worker
  uint64_t attempts = 0;   // compare-and-puts, whatever came of them
  uint64_t conflicts = 0;  // of these, that another was faster than
  uint64_t looks = 0;      // reads of the ledger and of who is there
  // Of the job: samples that were given out again though one who died, or was taken for dead, may
  // have used them. At most what each of them had taken and not committed.
  uint64_t repeated = 0;
};

// The ledger of a trainer that uses neither session nor parameter server: kept in a store, where
// each worker commits its own samples with one compare-and-put, which also says what it works on
// next. Each sample is committed once per epoch whoever joins, leaves or dies; but a gradient is
// not committed with its samples, so that those which a dead worker had taken and not committed may
// be used twice. They are counted. docs/data.md has the rules.
//   auto ledger = StoreLedger::join({.data = {...}, .id = "w0"}, *store, system_runtime());
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(64);
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... compute, and use the gradient
//     (*ledger)->advance();                                   // and errors, left out here
//   }
// Threads: one at a time; samples() and sample_indices() from any.
// Owns: its lease, which a task of the runtime keeps alive. `store` and `runtime` must outlive it.
//       Its end without leave() is a death to the others, at once.
// Blocks: as long as its calls of the store do: one for each advance() of a lonely worker, two or
//         three where several commit at the same time.
// Errors: those of Store. kCancelled once this life is over: its lease has ended and what it held
//         is another's, somebody joined under its id, or the job began anew. Join again, if at all:
//         what was taken and not committed is counted as repeated.
class FFDL_API StoreLedger final : public SampleLedger {
 public:
  // Errors: kInvalidArgument (also: this lineage did not begin from `from`), kCancelled (a larger
  // lineage has begun), kCorrupt (what is under that name in the store is a ledger with other
  // options, or none; `from` is none), kExhausted (256 workers).
  static Result<std::unique_ptr<StoreLedger>> join(const StoreLedgerOptions& options, Store& store,
                                                   Runtime& runtime);
  ~StoreLedger() override;
  StoreLedger(const StoreLedger&) = delete;
  StoreLedger& operator=(const StoreLedger&) = delete;

  // Asks the store only for what advance() has not already said that this worker will take: so ask
  // for as many each time. Empty: others hold the rest of this epoch, or all is done.
  Result<std::vector<SampleRange>> take(uint64_t count = kAll) override;
  uint64_t taken() const override;
  // What others take over from it at the end of an epoch leaves it at its end.
  const std::vector<SampleRange>& leases() const override;

  // Commits what was taken. After an error call it again until it succeeds or says kCancelled: it
  // happens once, and until then take() gives the same samples.
  Status advance();
  // Waits while others hold the rest of an epoch. Returns when that may have changed; at once for
  // who holds something or when all is done. Errors: kTimeout.
  Status wait(Time deadline);
  // Gives back what it holds and did not commit, which it has not used: for others to use.
  // Afterwards this life is over.
  Status leave();

  // Where the job stands, for a checkpoint: what all workers have committed.
  Result<std::vector<std::byte>> save();

  uint64_t samples() const override;
  // As this worker last saw them:
  uint64_t epoch() const override;
  uint64_t committed() const override;
  bool is_done() const override;
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override;

  // Asks for so many partitions from the next commit on (partitions_wanted).
  void want(int partitions);
  const Member& self() const;
  StoreLedgerStats stats() const;

 private:
  class Impl;
  explicit StoreLedger(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
