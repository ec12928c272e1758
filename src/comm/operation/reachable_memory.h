#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/operation/request.h"
#include "ffdl/comm/shared_memory.h"
#include "shm/segment_place.h"

namespace ffdl::comm {

// Holds the registered memory of one rank, and its mappings of the other ranks' memory.
// Threads: one at a time.
// Owns: the mappings. Registered memory belongs to the caller, and is forgotten when it is
//       destroyed.
class ReachableMemory {
 public:
  void add(const std::shared_ptr<SharedMemory>& memory);

  // Returns the place of the request's buffers if they are one whole registered memory, to be
  // changed in place. Otherwise the place is empty.
  shm::SegmentPlace place_of(const Request& request) const;

  // Unmaps all reached memory if there is much of it. Called between operations.
  void make_room();

  // Returns the first byte of that memory, at an address of this process, valid until make_room().
  // Maps it if it is new.
  // Errors: those of Segment::open_of, kConflict (it is not there any more), kInvalidArgument
  //         (fewer than `bytes`).
  Result<std::byte*> reach(const shm::SegmentPlace& place, uint64_t bytes);

  // Replaces the memory there, so that no other process reads or writes it any more.
  Status take_back(const shm::SegmentPlace& place);

 private:
  std::vector<std::weak_ptr<SharedMemory>> registered_;
  std::map<std::pair<int64_t, uint64_t>, shm::Segment> mapped_;  // by pid and memory
};

}  // namespace ffdl::comm
