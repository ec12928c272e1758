#include "shm/segment_place.h"

#include <unistd.h>

#include <cstdio>

#include "base/errors.h"

namespace ffdl::shm {

SegmentPlace place_of(const Segment& segment) {
  return {.segment = segment.header().generation, .pid = getpid(), .fd = segment.fd()};
}

std::string to_text(const SegmentPlace& place) {
  return fmt::format("{} {} {:016x}", place.pid, place.fd, place.segment);
}

SegmentPlace segment_place_of(const std::string& text) {
  long long pid = 0;
  long long fd = 0;
  unsigned long long segment = 0;
  if (std::sscanf(text.c_str(), "%lld %lld %llx", &pid, &fd, &segment) != 3) return {};
  return {.segment = segment, .pid = pid, .fd = fd};
}

Result<Segment> open_segment(const SegmentPlace& place, SegmentKind kind, uint32_t layout_version) {
  FFDL_ASSIGN_OR_RETURN(Segment segment, Segment::open_of(place.pid, static_cast<int>(place.fd),
                                                          kind, layout_version));
  if (segment.header().generation == place.segment) return segment;
  return base::make_error(StatusCode::kConflict,
                          "open the memory of process {}: it has been replaced", place.pid);
}

}  // namespace ffdl::shm
