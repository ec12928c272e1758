#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "data/ledger_state.h"
#include "ffdl/types.h"

namespace ffdl::data {

// What a member will hold in the steps after the present one, if all take their whole shares and
// nobody comes or goes: the state, thought further. Of use where leases last for one step. A wrong
// forecast is useless, never wrong: what counts is the state when the time has come. Pure.
class Forecast {
 public:
  // Members have changed, or the state was taken back.
  void forget();
  // The leases of so many steps after that of `state`; fewer where all epochs end before. What came
  // as it was forecast is not thought out again.
  std::vector<std::vector<SampleRange>> of(const LedgerState& state, size_t rank, size_t steps);

 private:
  // By which a step is known, and what this member holds in it.
  struct Step {
    uint64_t epoch = 0;
    uint64_t committed = 0;
    uint64_t batch = 0;
    std::vector<SampleRange> leases{};

    bool operator==(const Step&) const = default;
  };
  static Step step_of(const LedgerState& state, size_t rank);

  std::optional<Step> present_{};
  std::deque<Step> steps_{};           // after that
  std::optional<LedgerState> last_{};  // in the last of these steps, or in the present one
};

}  // namespace ffdl::data
