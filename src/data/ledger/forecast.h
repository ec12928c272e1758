#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "data/ledger/ledger_state.h"
#include "ffdl/types.h"

namespace ffdl::data {

// Predicts what a member holds in the steps after the present one. Assumes that all members take
// their whole shares and that none joins or leaves. Useful if leases last for one step. A wrong
// forecast is useless but harmless: the state at the time of the step counts. Pure.
class Forecast {
 public:
  // Discards the forecast after a change of members or a restored state.
  void forget();
  // Returns the leases of up to `steps` steps after that of `state`; fewer if all epochs end
  // before. Does not recompute steps that were forecast correctly.
  std::vector<std::vector<SampleRange>> of(const LedgerState& state, size_t rank, size_t steps);

 private:
  // The values that identify a step, and the leases of this member in it.
  struct Step {
    uint64_t epoch = 0;
    uint64_t committed = 0;
    uint64_t batch = 0;
    std::vector<SampleRange> leases{};

    bool operator==(const Step&) const = default;
  };
  static Step step_of(const LedgerState& state, size_t rank);

  std::optional<Step> present_{};
  std::deque<Step> steps_{};           // after the present one
  std::optional<LedgerState> last_{};  // state of the last of these steps, or of the present one
};

}  // namespace ffdl::data
