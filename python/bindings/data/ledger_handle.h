#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/elastic/participant_handle.h"
#include "ffdl/data/sample_ledger.h"

namespace ffdl::python {

// The contents of a Python SampleLedger. Each kind has its own rule for the thread that may use it.
struct LedgerHandle : ParticipantHandle {
  // Returns the ledger without a check, for what any thread may call.
  virtual SampleLedger& ledger() const = 0;
  // Runs `call` for the one thread that may use the ledger. Rethrows an exception of on_stable.
  virtual void run(const std::function<void(SampleLedger&)>& call) = 0;
  // Runs a short call that only reads; keeps the interpreter lock.
  virtual void read(const std::function<void(const SampleLedger&)>& call) const = 0;
  virtual void wait(double timeout_s) = 0;

  // Raises InvalidArgument if the ledger is not one of a session.
  StepParticipant& participant() const override;

  pybind11::object on_stable;              // called by the ledger
  pybind11::object batch_size_controller;  // read by the ledger; may be None
  SampleOrder order = SampleOrder::kOnDemand;
  uint64_t micro_batch_samples = 1;
};

}  // namespace ffdl::python
