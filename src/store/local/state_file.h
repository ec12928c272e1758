#pragma once

#include <string>
#include <string_view>

#include "store/local/state.h"

namespace ffdl::store {

// A State as bytes: magic, boot id, contents, XXH3 of all that. Little-endian, as written by the
// hosts that share it.
struct StateFile {
  // `boot` identifies the clock that leases are measured with.
  static std::string write(const State& state, std::string_view boot);
  // Reads a State. Leases of another boot get their full term again from `now` on: that clock is
  // gone, and no member could renew meanwhile. Errors: kCorrupt, also if there are no bytes.
  static Result<State> read(std::string_view bytes, std::string_view boot, Time now);
};

}  // namespace ffdl::store
