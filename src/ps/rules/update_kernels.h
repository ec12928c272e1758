#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ffdl/ps/update_rule.h"

// Computes the built-in rules. All lanes use explicit multiply-add and there is no tail, so an
// element's bits do not depend on its position.
namespace ffdl::ps {

// Updates one block as UpdateRule::apply does, by the rule of `options.kind`.
void update_block(const UpdateRuleOptions& options, const UpdateStep& step,
                  const UpdateBlock& block);

// Floats that one step of a run updates. The number is small enough that the processor computes the
// next steps while it still stores this one. Then shadow and journal have no measurable cost.
inline constexpr uint64_t kRunFloats = 64;

// Consecutive steps of one fold. Each keeps the order that is safe against a kill at any
// instruction: all new values in a shadow, the journal, the copy into place.
struct JournalledRun {
  uint64_t steps = 0;
  uint64_t first = 0;  // number of the first step in the journal, from 0
  // These pointers are for the first step; the later steps follow it.
  const float* gradient = nullptr;
  float* weights = nullptr;
  std::array<float*, kRuleStateMax> state{};
  // Indexed by the parity of the step's number plus one, then by plane: weights, then each state.
  std::array<std::array<float*, 1 + kRuleStateMax>, 2> shadow{};
  std::atomic<uint64_t>* journal = nullptr;
  uint64_t journal_word = 0;  // without the number of a step
};
void update_run(const UpdateRuleOptions& options, const UpdateStep& step, const JournalledRun& run);

}  // namespace ffdl::ps
