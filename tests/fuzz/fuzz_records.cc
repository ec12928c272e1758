// Reads arbitrary bytes as the records of membership. They are refused as corrupt, or the record is
// the same when it is written and read again.
#include <string_view>

#include "base/check.h"
#include "membership/membership_records.h"

namespace {

using namespace ffdl;

template <class T>
void check_refusal(const Result<T>& result) {
  FFDL_CHECK(result.ok() || result.status().code() == StatusCode::kCorrupt,
             "the only thing wrong with it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto world = membership::parse_world(text);
  check_refusal(world);
  if (world.ok()) {
    const auto again = membership::parse_world(encode(*world));
    FFDL_CHECK(again.ok() && *again == *world, "what was written can be read");
    FFDL_CHECK(world->phase != Phase::kActive || world->state_holders == world->members,
               "an active world is carried by its members");
  }
  check_refusal(membership::parse_candidate(text));
  check_refusal(membership::parse_progress(text));
  check_refusal(membership::parse_leader(text));
  check_refusal(membership::parse_number(text));
  return 0;
}
