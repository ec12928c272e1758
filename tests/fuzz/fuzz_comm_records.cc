// Reads arbitrary bytes as what members of a communicator tell each other through the store: they
// are refused, or say the same when they are written again.
#include <string>

#include "base/check.h"
#include "comm/introduction.h"
#include "shm/segment_place.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ffdl;
  const std::string record(reinterpret_cast<const char*>(data), size);
  const auto introduction = comm::from_record(record);
  if (introduction.ok()) {
    FFDL_CHECK(comm::to_record(*introduction) == record, "an introduction is written in one way");
  } else {
    FFDL_CHECK(introduction.status().code() == StatusCode::kCorrupt, "the only thing wrong");
  }
  const shm::SegmentPlace place = shm::segment_place_of(record);
  FFDL_CHECK(shm::segment_place_of(shm::to_text(place)) == place, "a place that is read is whole");
  return 0;
}
