#pragma once

#include <cstdint>
#include <string>

#include "shm/segment.h"

// Shared memory without a name. Other processes of the host open it through a process that has it
// open. When the last of these processes is gone, killed or not, the memory is freed.
namespace ffdl::shm {

// Identifies an open segment for another process. Its fields have fixed widths, since it is stored
// in shared memory.
struct SegmentPlace {
  uint64_t segment = 0;  // its generation; 0: none
  int64_t pid = 0;
  int64_t fd = 0;

  bool operator==(const SegmentPlace&) const = default;
};

// Returns the place of a segment in this process.
SegmentPlace place_of(const Segment& segment);

std::string to_text(const SegmentPlace& place);
SegmentPlace segment_place_of(const std::string& text);  // names no process if the text is invalid

// Errors: those of Segment::open_of, kConflict (another segment is now open there).
Result<Segment> open_segment(const SegmentPlace& place, SegmentKind kind, uint32_t layout_version);

}  // namespace ffdl::shm
