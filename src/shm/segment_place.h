#pragma once

#include <cstdint>
#include <string>

#include "shm/segment.h"

// Memory without a name, which other processes of the host open through one that has it open: when
// the last of them is gone, killed or not, so is the memory.
namespace ffdl::shm {

// Where it is open: all that another process needs. Fixed width, as it stands in shared memory.
struct SegmentPlace {
  uint64_t segment = 0;  // its generation; 0: nowhere
  int64_t pid = 0;
  int64_t fd = 0;

  bool operator==(const SegmentPlace&) const = default;
};

// In this process.
SegmentPlace place_of(const Segment& segment);

std::string to_text(const SegmentPlace& place);
SegmentPlace segment_place_of(const std::string& text);  // of no process where the text is none

// Errors: those of Segment::open_of, kConflict (another segment is open there by now).
Result<Segment> open_segment(const SegmentPlace& place, SegmentKind kind, uint32_t layout_version);

}  // namespace ffdl::shm
