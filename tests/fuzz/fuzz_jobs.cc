// Reads arbitrary bytes as what jobs and the autoscaler tell each other through the store: they are
// refused as corrupt, or say the same when they are written again.
#include <string_view>

#include "base/check.h"
#include "jobs/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ffdl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
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
  const auto speeds = jobs::parse_speeds(text);
  FFDL_CHECK(speeds.ok() || speeds.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  if (speeds.ok()) {
    const auto again = jobs::parse_speeds(encode(*speeds));
    FFDL_CHECK(again.ok() && *again == *speeds, "speeds that were written can be read");
  }
  return 0;
}
