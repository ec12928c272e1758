#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ffdl/partition_ledger.h"
#include "participant_handle.h"

namespace ffdl::python {

// What a Python PartitionLedger holds.
struct LedgerHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *ledger; }
  PartitionLedger& use() const {
    expect_own_turn();
    return *ledger;
  }

  pybind11::object on_stable;     // that the ledger calls
  pybind11::object agreed_batch;  // that the ledger asks; None: nobody
  SampleOrder order = SampleOrder::kOnDemand;
  uint64_t micro_batch_samples = 1;
  std::unique_ptr<PartitionLedger> ledger;
};

inline pybind11::array_t<int64_t> indices_of(const SampleLedger& ledger,
                                             const std::vector<SampleRange>& ranges) {
  const auto indices = take(ledger.sample_indices(ranges));
  pybind11::array_t<int64_t> array(static_cast<pybind11::ssize_t>(indices.size()));
  std::copy(indices.begin(), indices.end(), array.mutable_data());
  return array;
}

inline pybind11::bytes bytes_of(const std::vector<std::byte>& state) {
  return {reinterpret_cast<const char*>(state.data()), state.size()};
}

}  // namespace ffdl::python
