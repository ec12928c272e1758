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
  uint64_t bytes = 0;       // memory in use
  double age_s = 0;         // since it was created
  int64_t creator_pid = 0;  // in the creator's pid namespace
  bool in_use = false;      // a living process holds one of its locks
  bool is_own = true;       // false: another user's; listed, and neither opened nor removed
  std::string problem;      // empty, or the reason why no more is known about it
};

// Returns all named segments, sorted by name. `in_use` is read from the kernel's file locks, which
// also work across pid namespaces. The pid is for display only.
FFDL_API Result<std::vector<SegmentInfo>> list_segments();

// Removes a segment that no process uses. Its weights are lost: adopt it instead to save them.
// Errors: kConflict (in use), kNotFound, kInvalidArgument (another user's, or not a file).
FFDL_API Status remove_segment(std::string_view name);

// Checks that no other user can replace a folder on the way to `path`. Each folder must belong to
// root or to this user, and have the sticky bit where others may write to it.
// Errors: kInvalidArgument (names the folder that another user can change), kUnavailable.
FFDL_API Status check_parents(std::string_view path);

// Returns the text of another process (a job's name, a message, a log line) in a form that is safe
// for a terminal. Control characters, bytes that are not UTF-8, and characters that change the
// direction of writing become escapes: \n, \x1b, \u{202e}.
FFDL_API std::string printable(std::string_view text);

}  // namespace ffdl
