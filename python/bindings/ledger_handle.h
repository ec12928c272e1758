#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ffdl/partition_ledger.h"
#include "raised.h"
#include "signals.h"
#include "status.h"

namespace ffdl::python {

// What a Python PartitionLedger holds.
struct LedgerHandle {
  // For the thread whose turn it is: that of the session while it is inside a call.
  PartitionLedger& use() const {
    if (inside != nullptr && inside != this_thread()) {
      raise_invalid_argument(
          "use a partition ledger: another thread is inside a call of its session; leave it to "
          "that thread");
    }
    return *ledger;
  }

  std::unique_ptr<PartitionLedger> ledger;
  std::shared_ptr<Raised> raised;  // by on_stable; also held by the function that calls it
  const void* inside = nullptr;    // the thread that is inside a call of the session
};

}  // namespace ffdl::python
