#pragma once

#include <functional>
#include <span>

#include "ffdl/types.h"
#include "ps/layout.h"

namespace ffdl::ps {

// Copies all weights out. Returns their version: every gradient of it is in what was copied.
// With PullMode::kSnapshot each shard is copied as it was between two updates: the reader asks the
// shard's thread for a pause and checks its sequence lock afterwards. A server that was killed or
// stopped in the middle of an update makes that kTimeout after kSnapshotWaitMax.
Result<uint64_t> pull_weights(const Region& region, std::span<float> to, PullMode mode);

// The same by other means: `read` has read weights [begin, begin + count) when it returns. Under
// kSnapshot it may be called again for the same ones, and what it read before is void.
using ReadWeights = std::function<Status(uint64_t begin, uint64_t count)>;
Result<uint64_t> pull_weights(const Region& region, PullMode mode, const ReadWeights& read);

// Rows of `row_size` floats of the table that begins at parameter `table`.
struct TableRows {
  uint64_t table = 0;
  uint64_t row_size = 0;
  std::span<const uint64_t> rows{};

  uint64_t floats() const { return rows.size() * row_size; }
};

// Whether there are such rows, and `floats` is the room that they take.
Status check_pull_rows(const Region& region, const TableRows& wanted, uint64_t floats);

// Copies them, one after the other, as kRelaxed; the version. They were checked.
uint64_t pull_rows(const Region& region, const TableRows& wanted, float* to);

// What a shard's thread remembers of its snapshot readers.
class SnapshotPauses {
 public:
  SnapshotPauses(const Region& region, int k);

  // Called between two folds: gives readers that asked the time for a copy, and not for ever, as a
  // reader may die. One that was too slow asks again and is given twice as long.
  void pause_if_asked();

 private:
  ShardWords& words_;
  uint32_t seen_;  // requests answered so far
  const Duration shortest_;
  Duration patience_;
};

}  // namespace ffdl::ps
