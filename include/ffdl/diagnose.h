#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl {

// One shared-memory segment of ffdl on this host.
struct SegmentInfo {
  std::string name;         // without the prefix and folder
  std::string kind;         // "parameter server", "communicator", or "unknown"
  uint64_t bytes = 0;       // of memory held
  double age_s = 0;         // since it was made
  int64_t creator_pid = 0;  // in the creator's pid namespace
  bool in_use = false;      // a living process holds one of its locks
  std::string problem;      // empty, or why the header cannot be believed
};

// All named segments, sorted by name. Whether one is in use is asked of the kernel's file locks,
// which also answers across pid namespaces; a pid is only shown.
FFDL_API Result<std::vector<SegmentInfo>> list_segments();

// Removes a segment that nobody uses. Its weights are gone then: adopt it instead to save them.
// Errors: kConflict (in use), kNotFound.
FFDL_API Status remove_segment(std::string_view name);

}  // namespace ffdl
