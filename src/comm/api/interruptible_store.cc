#include "comm/api/interruptible_store.h"

#include <algorithm>

#include "base/limits.h"

namespace ffdl::comm {

Result<Revision> InterruptibleStore::wait_change(std::string_view prefix, Revision after,
                                                 Time deadline) {
  if (!check_) return store_.wait_change(prefix, after, deadline);
  while (true) {
    const Time piece_end = std::min<Time>(deadline, deadline_in(base::kLookInterval));
    Result<Revision> changed = store_.wait_change(prefix, after, piece_end);
    const bool in_vain = !changed.ok() && changed.status().code() == StatusCode::kTimeout;
    if (!in_vain || piece_end == deadline) return changed;
    FFDL_RETURN_IF_ERROR(check_());
  }
}

}  // namespace ffdl::comm
