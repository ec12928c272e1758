#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ffdl/comm/communicator.h"

// Exchanges the records that the members of a new world need from each other.
namespace ffdl::comm {

struct Told {
  std::vector<std::string> records;  // of all members, by rank
  LeaseId lease = kNoLease;          // of this rank's record; ended once all have read it
};

// Publishes `record` under `topic` and returns those of all members. The record of a member that
// fails afterwards stays, so that the others learn the cause; it ends with the lease, at about the
// deadline.
// Blocks: until all records are published, or the deadline.
// Errors: kTimeout (names the missing member), kWorldChanged (another process is this rank), and
//         those of Store.
Result<Told> exchange_records(const World& world, Store& store, std::string_view topic,
                              std::string_view record, Time deadline);

// Returns the life of a record for members that connect. It ends at about their deadline, since no
// member waits for it much longer.
Duration life_until(Time deadline);

}  // namespace ffdl::comm
