#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ffdl/update_rule.h"

// The arithmetic of the built-in rules. Explicit multiply-add in all lanes, no tail: the same bits
// for an element wherever it stands.
namespace ffdl::ps {

// One block, as UpdateRule::apply, by the rule of `options.kind`.
void update_block(const UpdateRuleOptions& options, const UpdateStep& step,
                  const UpdateBlock& block);

// Floats that a step of a run updates. So few that the processor computes the next steps while it
// still stores this one: shadow and journal then cost nothing that can be measured.
inline constexpr uint64_t kRunFloats = 64;

// Steps of one fold, one after the other, each in the order that a kill at any instruction asks
// for: new values whole in a shadow, the journal, the copy into place.
struct JournalledRun {
  uint64_t steps = 0;
  uint64_t first = 0;  // number of the first step in the journal, from 0
  // Of the first step; the others follow.
  const float* gradient = nullptr;
  float* weights = nullptr;
  std::array<float*, kRuleStateMax> state{};
  // By the parity of the step's number plus one: for weights, then for each state.
  std::array<std::array<float*, 1 + kRuleStateMax>, 2> shadow{};
  std::atomic<uint64_t>* journal = nullptr;
  uint64_t journal_word = 0;  // without the number of a step
};
void update_run(const UpdateRuleOptions& options, const UpdateStep& step, const JournalledRun& run);

}  // namespace ffdl::ps
