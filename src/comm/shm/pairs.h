#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/operation/request.h"
#include "comm/shm/meeting.h"

namespace ffdl::comm {

// Runs send and recv of one rank. A message goes through the mailbox of its sender. Sender and
// receiver wait for each other at the bell of that mailbox, and for no other rank.
// Threads: one at a time; the meeting may be stopped from any thread.
// Borrows the meeting, which must outlive it.
class ShmPairs {
 public:
  ShmPairs(ShmMeeting& meeting, int rank);

  // Runs a send or recv. After an error the meeting must be stopped. Errors: those of Communicator.
  Status run(const Request& request, Time deadline);

 private:
  Status send(const Request& request, Time deadline);
  Status recv(const Request& request, Time deadline);
  Status wait_until_taken(const Request& request, uint64_t parts, Time deadline);
  // Returns whether the last offer of `sender` is for this rank and has not been taken.
  bool is_offered(int sender) const;
  // Returns the error for a rank that has broken the protocol.
  Status corrupt(const Request& request, int other, std::string_view what) const;

  ShmMeeting& meeting_;
  const ShmView& view_;
  const int rank_;
  uint64_t sent_ = 0;           // messages
  std::vector<uint64_t> seen_;  // by sender: the last offer taken from it
};

}  // namespace ffdl::comm
