#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ffdl/communicator.h"

// How the members of a world that is being connected tell each other what they need to know.
namespace ffdl::comm {

struct Told {
  std::vector<std::string> records;  // of all members, by rank
  LeaseId lease = kNoLease;  // that of our own; ended when everybody is known to have read it
};

// Every member tells `record` under `topic`. Who fails afterwards leaves its record, so that the
// others learn what is wrong; it ends with the lease, at about the deadline.
// Blocks: until all have told, or the deadline.
// Errors: kTimeout (names who has not come), kWorldChanged (another process is this rank), and
//         those of Store.
Result<Told> exchange_records(const World& world, Store& store, std::string_view topic,
                              std::string_view record, Time deadline);

}  // namespace ffdl::comm
