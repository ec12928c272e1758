#include "benchmarks/data/ledgers.h"

#include <fmt/format.h>

#include <chrono>

namespace ffdl::bench {

Ledgers::Ledgers(int members, const LedgerOptions& options) {
  World world;
  for (int rank = 0; rank < members; ++rank) {
    world.members.push_back({fmt::format("worker-{}", rank), 1});
  }
  for (world.rank = 0; world.rank < members; ++world.rank) {
    ledgers_.push_back(std::move(make_session_ledger(options)).value());
    ledgers_.back()->participant()->world_changed(world);
  }
  records_.resize(ledgers_.size() * ledgers_[0]->participant()->record_bytes());
}

Result<double> Ledgers::step(uint64_t count) {
  return step(std::vector<uint64_t>(ledgers_.size(), count));
}

Result<double> Ledgers::step(std::span<const uint64_t> counts) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const size_t bytes = one().participant()->record_bytes();
  double seconds = 0;
  for (size_t rank = ledgers_.size(); rank-- > 0;) {
    const auto begin = Clock::now();
    FFDL_RETURN_IF_ERROR(ledgers_[rank]->take(counts[rank]).status());
    ledgers_[rank]->participant()->write_record(std::span(records_).subspan(rank * bytes, bytes));
    if (rank == 0) seconds += since(begin);
  }
  ++step_;
  for (size_t rank = 0; rank < ledgers_.size(); ++rank) {
    const auto begin = Clock::now();
    ledgers_[rank]->participant()->applied(step_, StepRecords(records_, bytes, bytes));
    if (rank == 0) seconds += since(begin);
  }
  return seconds;
}

Result<double> Ledgers::seconds_per_step(int steps) {
  double seconds = 0;
  for (int i = 0; i < steps; ++i) {
    FFDL_ASSIGN_OR_RETURN(const double one, step(256));
    seconds += one;
  }
  return seconds / steps;
}

}  // namespace ffdl::bench
