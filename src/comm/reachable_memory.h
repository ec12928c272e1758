#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/request.h"
#include "ffdl/shared_memory.h"
#include "shm/segment_place.h"

namespace ffdl::comm {

// The registered memory of one rank, and what it has mapped of the other ranks'.
// Threads: one at a time.
// Owns: the mappings. What is registered belongs to the caller, and is forgotten when it is gone.
class ReachableMemory {
 public:
  void add(const std::shared_ptr<SharedMemory>& memory);

  // Where the buffers of the request lie, when that is one whole registered memory, to be changed
  // in place; else nowhere.
  shm::SegmentPlace place_of(const Request& request) const;

  // Between operations: unmaps what was reached, once that is a lot.
  void make_room();

  // The first byte of what lies there, at an address of this process, until make_room(). Maps it
  // when it is new.
  // Errors: those of Segment::open_of, kConflict (it is not there any more), kInvalidArgument
  //         (fewer than `bytes`).
  Result<std::byte*> reach(const shm::SegmentPlace& place, uint64_t bytes);

  // From now on nobody else reads or writes what lies there.
  Status take_back(const shm::SegmentPlace& place);

 private:
  std::vector<std::weak_ptr<SharedMemory>> registered_;
  std::map<std::pair<int64_t, uint64_t>, shm::Segment> mapped_;  // by pid and memory
};

}  // namespace ffdl::comm
