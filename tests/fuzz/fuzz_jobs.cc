// Reads arbitrary bytes as what jobs, the autoscaler and meters tell each other through the store,
// as lines of a policy's log, and as what the members of a job have agreed on: they are refused, or
// say the same when they are written again.
#include <algorithm>
#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "ffdl/agreed_batch.h"
#include "jobs/records.h"
#include "steer/records.h"

namespace {

// With the checksum that makes them whole.
void read_agreed_batch(std::string bytes) {
  using namespace ffdl;
  const XXH64_hash_t sum = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  const auto state = std::as_bytes(std::span(bytes));
  const auto batch = AgreedBatch::create(8);
  const Status restored = (*batch)->restore(state);
  FFDL_CHECK(restored.ok() || restored.code() == StatusCode::kCorrupt, "the only thing wrong");
  if (!restored.ok()) return;
  const auto saved = (*batch)->save();
  FFDL_CHECK(std::equal(saved.begin(), saved.end(), state.begin(), state.end()), "it is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ffdl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_agreed_batch(std::string(text));
  const auto demand = jobs::parse_demand(text);
  FFDL_CHECK(demand.ok() || demand.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  if (demand.ok()) {
    const auto again = jobs::parse_demand(encode(*demand));
    FFDL_CHECK(
        again.ok() && again->place == demand->place && again->demand.sizes == demand->demand.sizes,
        "a demand that was written can be read");
  }
  const auto answers = jobs::parse_answers(text);
  FFDL_CHECK(answers.ok() || answers.status().code() == StatusCode::kCorrupt,
             "the only thing wrong");
  if (answers.ok()) {
    const auto again = jobs::parse_answers(encode(*answers));
    FFDL_CHECK(again.ok() && *again == *answers, "answers that were written can be read");
  }
  const auto measured = steer::parse_measurement(text);
  FFDL_CHECK(measured.ok() || measured.status().code() == StatusCode::kCorrupt,
             "the only thing wrong");
  if (measured.ok()) {
    const auto again = steer::parse_measurement(steer::encode(*measured));
    FFDL_CHECK(again.ok() && *again == *measured, "a measurement that was written can be read");
  }
  const auto seen = steer::parse_observation(text);
  FFDL_CHECK(seen.ok() || seen.status().code() == StatusCode::kInvalidArgument,
             "the only thing wrong");
  if (seen.ok() && *seen) {
    const auto again = steer::parse_observation(
        steer::encode({.at = (*seen)->at, .observation = (*seen)->observation}));
    FFDL_CHECK(again.ok() && *again, "an observation that was logged can be read");
    FFDL_CHECK((*again)->observation.workers == (*seen)->observation.workers, "and is the same");
  }
  const auto speeds = jobs::parse_speeds(text);
  FFDL_CHECK(speeds.ok() || speeds.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  if (speeds.ok()) {
    const auto again = jobs::parse_speeds(jobs::encode(*speeds));
    FFDL_CHECK(again.ok() && *again == *speeds, "speeds that were written can be read");
  }
  return 0;
}
