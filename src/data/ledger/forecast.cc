#include "data/ledger/forecast.h"

namespace ffdl::data {
namespace {

// Commits a step in which each member takes all that it holds.
void take_step(LedgerState& state) {
  std::vector<Claim> claims(state.members().size());
  for (size_t rank = 0; rank < claims.size(); ++rank) claims[rank].samples = state.held(rank);
  state.commit(state.last().step + 1, claims);
}

}  // namespace

Forecast::Step Forecast::step_of(const LedgerState& state, size_t rank) {
  return {state.epoch(), state.committed(), state.batch(), state.leases(rank)};
}

void Forecast::forget() {
  steps_.clear();
  last_.reset();
}

std::vector<std::vector<SampleRange>> Forecast::of(const LedgerState& state, size_t rank,
                                                   size_t steps) {
  Step now = step_of(state, rank);
  if (now != present_) {
    if (!steps_.empty() && steps_.front() == now) {
      steps_.pop_front();
    } else {
      forget();
    }
    present_ = std::move(now);
  }
  if (!last_) last_ = state;
  while (steps_.size() < steps && !last_->is_done()) {
    take_step(*last_);
    if (!last_->is_done()) steps_.push_back(step_of(*last_, rank));
  }
  std::vector<std::vector<SampleRange>> ahead;
  for (const Step& step : steps_) {
    if (ahead.size() < steps) ahead.push_back(step.leases);
  }
  return ahead;
}

}  // namespace ffdl::data
