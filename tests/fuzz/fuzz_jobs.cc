// Reads arbitrary bytes as records that jobs, the autoscaler and meters exchange through the store.
// Reads them as lines of a policy's log, and as the agreed state of a job's members. They are
// refused, or are the same when they are written again.
#include <algorithm>
#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/tuning/batch_size.h"
#include "scaling/scaling_records.h"

namespace {

// Reads the bytes with a valid checksum.
void read_agreed_batch(std::string bytes) {
  using namespace ffdl;
  const XXH64_hash_t sum = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  const auto state = std::as_bytes(std::span(bytes));
  const auto batch = BatchSizeController::create(8);
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
  const auto request = cluster::parse_request(text);
  FFDL_CHECK(request.ok() || request.status().code() == StatusCode::kCorrupt,
             "the only thing wrong");
  if (request.ok()) {
    const auto again = cluster::parse_request(encode(*request));
    FFDL_CHECK(again.ok() && again->place == request->place &&
                   again->request.sizes == request->request.sizes,
               "a request that was written can be read");
  }
  const auto answers = cluster::parse_answers(text);
  FFDL_CHECK(answers.ok() || answers.status().code() == StatusCode::kCorrupt,
             "the only thing wrong");
  if (answers.ok()) {
    const auto again = cluster::parse_answers(encode(*answers));
    FFDL_CHECK(again.ok() && *again == *answers, "answers that were written can be read");
  }
  const auto measured = scaling::parse_measurement(text);
  FFDL_CHECK(measured.ok() || measured.status().code() == StatusCode::kCorrupt,
             "the only thing wrong");
  if (measured.ok()) {
    const auto again = scaling::parse_measurement(scaling::encode(*measured));
    FFDL_CHECK(again.ok() && *again == *measured, "a measurement that was written can be read");
  }
  const auto seen = scaling::parse_observation(text);
  FFDL_CHECK(seen.ok() || seen.status().code() == StatusCode::kInvalidArgument,
             "the only thing wrong");
  if (seen.ok() && *seen) {
    const auto again =
        scaling::parse_observation(scaling::encode(scaling::LoggedDecision{.observation = **seen}));
    FFDL_CHECK(again.ok() && *again, "an observation that was logged can be read");
    FFDL_CHECK((*again)->workers == (*seen)->workers, "and is the same");
  }
  const auto speeds = cluster::parse_speeds(text);
  FFDL_CHECK(speeds.ok() || speeds.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  if (speeds.ok()) {
    const auto again = cluster::parse_speeds(cluster::encode(*speeds));
    FFDL_CHECK(again.ok() && *again == *speeds, "speeds that were written can be read");
  }
  return 0;
}
