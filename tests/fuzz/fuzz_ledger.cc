// Reads arbitrary bytes as the state of a partition ledger, as the records of its members in a
// step, and as the ledger of a store. They are refused, or make a ledger that continues and can be
// saved and restored.
#include <algorithm>
#include <cstring>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/byte_records.h"
#include "base/check.h"
#include "data/ledger/ledger_options.h"
#include "data/ledger/store_ledger_state.h"
#include "ffdl/data/sample_ledger.h"

namespace {

using namespace ffdl;

constexpr size_t kMembers = 3;

World world() {
  World world;
  world.members = {{"a", 1}, {"b", 1}, {"c", 2}};
  return world;
}

LedgerOptions options() { return {.samples = 50, .partition_samples = 4, .epochs = 2}; }

std::unique_ptr<SampleLedger> make() {
  auto ledger = make_session_ledger(options());
  FFDL_CHECK(ledger.ok(), "these options are in order");
  return std::move(ledger).value();
}

// Applies a step in which rank 0 sends a valid record, and all others send arbitrary ones.
void step(SampleLedger& ledger, const uint8_t* data, size_t size) {
  static_cast<void>(ledger.take(3));
  std::vector<std::byte> records(kMembers * ledger.participant()->record_bytes());
  for (size_t rank = 0; rank < kMembers; ++rank) {
    ledger.participant()->write_record(
        std::span(records).subspan(rank * ledger.participant()->record_bytes()));
  }
  const size_t foreign = std::min(size, records.size() - ledger.participant()->record_bytes());
  for (size_t i = 0; i < foreign; ++i) {
    records[ledger.participant()->record_bytes() + i] ^= static_cast<std::byte>(data[i]);
  }
  ledger.participant()->applied(1, StepRecords(records, ledger.participant()->record_bytes(),
                                               ledger.participant()->record_bytes()));
}

void go_on(SampleLedger& ledger, const uint8_t* data, size_t size) {
  ledger.participant()->world_changed(world());
  step(ledger, data, size);
  FFDL_CHECK(ledger.committed() <= 50, "no more than there are");
  auto other = make();
  FFDL_CHECK(other->participant()->restore(ledger.participant()->save()).ok(), "it was just saved");
  FFDL_CHECK(other->participant()->save() == ledger.participant()->save(), "it is the same");
}

// Returns the form in a store: a ledger's state, and a few numbers of each worker.
std::string as_stored(const std::string& state, size_t workers, const uint8_t* data, size_t size) {
  base::ByteWriter out("ffdlsto2");
  out.text(state);
  for (size_t i = 0; i < 4 + 2 * workers; ++i) out.number(i < size ? data[i] % 4 : 0);
  return std::move(out).finish();
}

void go_on(data::StoreLedgerState& ledger) {
  const auto self = ledger.join("self");
  if (!self) return;
  for (int turn = 0; turn < 4; ++turn) {
    const size_t rank = *ledger.rank_of(*self);
    ledger.take_turn(rank, {ledger.under_way(rank), 3, 2});
  }
  FFDL_CHECK(ledger.state().committed() <= 50, "no more than there are");
  const std::string saved = ledger.encode();
  auto other = data::StoreLedgerState::decode(saved, data::rules_of(options()));
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
    const Status restored = ledger->participant()->restore(std::as_bytes(std::span(bytes)));
    FFDL_CHECK(restored.ok() || restored.code() == StatusCode::kCorrupt, "the only thing wrong");
    go_on(*ledger, data, size);
    for (size_t workers = 0; workers <= kMembers; ++workers) {
      const std::string stored = as_stored(bytes, workers, data, size);
      auto read = ffdl::data::StoreLedgerState::decode(stored, ffdl::data::rules_of(options()));
      FFDL_CHECK(read.ok() || read.status().code() == StatusCode::kCorrupt, "the same");
      if (read.ok()) go_on(*read);
    }
  }
  return 0;
}
