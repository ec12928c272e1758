#pragma once

#include "ffdl/update_rule.h"

// The arithmetic of the built-in rules over one block. Explicit multiply-add in all lanes, no tail:
// the same bits for an element wherever it stands in a block.
namespace ffdl::ps {

void update_sgd(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block);
void update_momentum(const UpdateRuleOptions& rule, const UpdateStep& step,
                     const UpdateBlock& block);
void update_nesterov(const UpdateRuleOptions& rule, const UpdateStep& step,
                     const UpdateBlock& block);
void update_adagrad(const UpdateRuleOptions& rule, const UpdateStep& step,
                    const UpdateBlock& block);
void update_average(const UpdateRuleOptions& rule, const UpdateStep& step,
                    const UpdateBlock& block);
// kAdam or kAdamW, by rule.kind.
void update_adam(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block);

}  // namespace ffdl::ps
