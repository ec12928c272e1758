#pragma once

#include <cstdint>
#include <vector>

#include "comm/request.h"
#include "comm/shm_meeting.h"

namespace ffdl::comm {

// send and recv of one rank. A message goes through the mailbox of its sender; sender and receiver
// wait for each other at the bell of that mailbox, and for nobody else.
// Threads: one at a time; the meeting may be stopped from any.
// Borrows the meeting, which must outlive it.
class ShmPairs {
 public:
  ShmPairs(ShmMeeting& meeting, int rank);

  // Errors: those of Communicator; after any, the meeting is to be stopped.
  Status run(const Request& request, Time deadline);

 private:
  Status send(const Request& request, Time deadline);
  Status recv(const Request& request, Time deadline);
  Status wait_until_taken(const Request& request, uint64_t parts, Time deadline);
  // Whether the last offer of `sender` is for us, and not one that we have taken.
  bool is_offered(int sender) const;

  ShmMeeting& meeting_;
  const ShmView& view_;
  const int rank_;
  uint64_t sent_ = 0;           // messages
  std::vector<uint64_t> seen_;  // by sender: his last offer that we took
};

}  // namespace ffdl::comm
