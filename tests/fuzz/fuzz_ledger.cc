// Reads arbitrary bytes as the state of a partition ledger, and as what its members say with a
// step: they are refused, or give a ledger that goes on and can be saved and restored.
#include <algorithm>
#include <cstring>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "ffdl/partition_ledger.h"

namespace {

using namespace ffdl;

constexpr size_t kMembers = 3;

World world() {
  World world;
  world.members = {{"a", 1}, {"b", 1}, {"c", 2}};
  return world;
}

std::unique_ptr<PartitionLedger> make() {
  auto ledger = PartitionLedger::create({.samples = 50, .partition_samples = 4, .epochs = 2});
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
  }
  return 0;
}
