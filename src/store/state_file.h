#pragma once

#include <string>
#include <string_view>

#include "store/state.h"

namespace ffdl::store {

// A State as bytes: magic, boot id, what it holds, XXH3 of all that. Little-endian, as written by
// the hosts that share it.
struct StateFile {
  // `boot` names the life of the clock that leases are measured with.
  static std::string write(const State& state, std::string_view boot);
  // Leases of another boot get their full term again from `now` on: that clock is gone, and nobody
  // could renew meanwhile. Empty bytes are an empty store. Errors: kCorrupt.
  static Result<State> read(std::string_view bytes, std::string_view boot, Time now);
};

}  // namespace ffdl::store
