// Reads arbitrary bytes as the state of a partition ledger, as what its members say with a step,
// and as the ledger of a store: they are refused, or give a ledger that goes on and can be saved
// and restored.
#include <algorithm>
#include <cstring>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/byte_records.h"
#include "base/check.h"
#include "data/ledger_options.h"
#include "data/stored_ledger.h"
#include "ffdl/partition_ledger.h"

namespace {

using namespace ffdl;

constexpr size_t kMembers = 3;

World world() {
  World world;
  world.members = {{"a", 1}, {"b", 1}, {"c", 2}};
  return world;
}

PartitionLedgerOptions options() { return {.samples = 50, .partition_samples = 4, .epochs = 2}; }

std::unique_ptr<PartitionLedger> make() {
  auto ledger = PartitionLedger::create(options());
  FFDL_CHECK(ledger.ok(), "these options are in order");
  return std::move(ledger).value();
}

// A step in which rank 0 says what is right, and all others what they like.
void step(PartitionLedger& ledger, const uint8_t* data, size_t size) {
  static_cast<void>(ledger.take(3));
  std::vector<std::byte> records(kMembers * ledger.record_bytes());
  for (size_t rank = 0; rank < kMembers; ++rank) {
    ledger.describe(std::span(records).subspan(rank * ledger.record_bytes()));
  }
  const size_t foreign = std::min(size, records.size() - ledger.record_bytes());
  for (size_t i = 0; i < foreign; ++i) {
    records[ledger.record_bytes() + i] ^= static_cast<std::byte>(data[i]);
  }
  ledger.applied(1, StepRecords(records, ledger.record_bytes(), ledger.record_bytes()));
}

void go_on(PartitionLedger& ledger, const uint8_t* data, size_t size) {
  ledger.world_changed(world());
  step(ledger, data, size);
  FFDL_CHECK(ledger.committed() <= 50, "no more than there are");
  auto other = make();
  FFDL_CHECK(other->restore(ledger.save()).ok(), "it was just saved");
  FFDL_CHECK(other->save() == ledger.save(), "it is the same");
}

// What a store has: such a state, and a few numbers of each worker.
std::string as_stored(const std::string& state, size_t workers, const uint8_t* data, size_t size) {
  base::ByteWriter out("ffdlsto2");
  out.text(state);
  for (size_t i = 0; i < 4 + 2 * workers; ++i) out.number(i < size ? data[i] % 4 : 0);
  return std::move(out).finish();
}

void go_on(data::StoredLedger& ledger) {
  const auto self = ledger.join("self");
  if (!self) return;
  for (int turn = 0; turn < 4; ++turn) {
    const size_t rank = *ledger.rank_of(*self);
    ledger.take_turn(rank, {ledger.under_way(rank), 3, 2});
  }
  FFDL_CHECK(ledger.state().committed() <= 50, "no more than there are");
  const std::string saved = ledger.encode();
  auto other = data::StoredLedger::decode(saved, data::rules_of(options()));
  FFDL_CHECK(other.ok() && other->encode() == saved, "it was just saved");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool sign : {false, true}) {
    std::string bytes(reinterpret_cast<const char*>(data), size);
    if (sign) {
      const XXH64_hash_t sum = XXH3_64bits(data, size);
      bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    }
    auto ledger = make();
    const Status restored = ledger->restore(std::as_bytes(std::span(bytes)));
    FFDL_CHECK(restored.ok() || restored.code() == StatusCode::kCorrupt, "the only thing wrong");
    go_on(*ledger, data, size);
    for (size_t workers = 0; workers <= kMembers; ++workers) {
      const std::string stored = as_stored(bytes, workers, data, size);
      auto read = ffdl::data::StoredLedger::decode(stored, ffdl::data::rules_of(options()));
      FFDL_CHECK(read.ok() || read.status().code() == StatusCode::kCorrupt, "the same");
      if (read.ok()) go_on(*read);
    }
  }
  return 0;
}
