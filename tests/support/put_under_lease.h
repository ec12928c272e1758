#pragma once

#include <string>

#include "ffdl/store.h"

namespace ffdl::testing {

struct LeasedPut {
  LeaseId lease = kNoLease;
  Result<Revision> revision = Revision{0};
};

// Puts a key under a new lease. On a busy machine a short lease may end before the put; then again,
// under another one.
inline LeasedPut put_under_lease(Store& store, const std::string& key, Duration term,
                                 const std::string& value = "v") {
  LeasedPut put;
  do {
    const auto lease = store.grant_lease(term);
    if (!lease.ok()) return {.revision = lease.status()};
    put = {.lease = *lease, .revision = store.put(key, value, *lease)};
  } while (put.revision.status().code() == StatusCode::kNotFound);
  return put;
}

}  // namespace ffdl::testing
