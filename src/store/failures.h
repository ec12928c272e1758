#pragma once

#include <string>
#include <string_view>

#include "base/errors.h"
#include "base/limits.h"
#include "ffdl/store.h"

// Makes the errors that back ends have in common.
namespace ffdl::store {

// Names what is being done, for an error message.
inline std::string name(std::string_view doing, std::string_view key) {
  return fmt::format("{} '{}'", doing, key);
}
inline std::string name(std::string_view doing, LeaseId lease) {
  return fmt::format("{} lease {}", doing, lease);
}

inline Status no_such_key(std::string_view key) {
  return base::make_error(StatusCode::kNotFound,
                          "get '{}': there is no such key; has its writer begun", key);
}

inline Status lease_has_ended(std::string_view doing, LeaseId lease) {
  return base::make_error(StatusCode::kNotFound,
                          "{} lease {}: it has ended, and its keys are gone; grant another and put "
                          "the keys again",
                          doing, lease);
}

inline Status has_other_revision(std::string_view key, Revision expected, Revision present) {
  return base::make_error(StatusCode::kConflict,
                          "put '{}': expected revision {}, it has {}; read it again and decide",
                          key, expected, present);
}

inline Status no_change(std::string_view prefix, Revision after) {
  return base::make_error(StatusCode::kTimeout,
                          "wait for a change of '{}': none after revision {}; wait longer", prefix,
                          after);
}

inline Status check_ttl(Duration ttl) {
  if (ttl > Duration::zero() && ttl <= base::kLeaseMax) return {};
  return base::invalid_argument("grant a lease of {} ns: it must be above 0 and at most {} h",
                                ttl.count(), base::kLeaseMax.count());
}

}  // namespace ffdl::store
