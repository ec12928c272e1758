#include "launch/decide_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace ffdl::launch {
namespace {

// Returns the pause before a restart: half of it is fixed, half is random.
Duration pause_before(int restart, uint64_t random) {
  const double longest =
      std::min(Duration(base::kRestartPauseMin).count() * std::exp2(std::min(restart - 1, 30)),
               static_cast<double>(Duration(base::kRestartPauseMax).count()));
  const double share = static_cast<double>(random >> 11) / static_cast<double>(1ULL << 53);
  return Duration(static_cast<int64_t>(longest * (0.5 + 0.5 * share)));
}

bool is_alive(const WorkerState& worker) {
  return worker.phase == WorkerPhase::kRunning || worker.phase == WorkerPhase::kStopping;
}

bool is_wanted_here(const NodeFacts& facts, size_t index) {
  return place_of(facts.wanted, facts.first + static_cast<int>(index)) >= 0;
}

struct Counts {
  int wanted = 0;  // wanted on this node
  int alive = 0;   // wanted or not
  int open = 0;    // wanted, and to be started at some time
  int finished = 0;
  int lost = 0;  // wanted
};

Counts count(const NodeFacts& facts) {
  Counts counts;
  for (size_t i = 0; i < facts.workers.size(); ++i) {
    const WorkerState& worker = facts.workers[i];
    const bool is_wanted = is_wanted_here(facts, i);
    counts.alive += is_alive(worker);
    counts.finished += worker.phase == WorkerPhase::kFinished;
    counts.wanted += is_wanted;
    counts.lost += is_wanted && worker.phase == WorkerPhase::kLost;
    counts.open +=
        is_wanted && (worker.phase == WorkerPhase::kIdle || worker.phase == WorkerPhase::kPaused);
  }
  return counts;
}

void judge(const NodeFacts& facts, WorkerDecision& decision) {
  const Counts counts = count(facts);
  if (facts.is_ending) {
    if (counts.alive == 0) decision.verdict = Verdict::kEnded;
    return;
  }
  const int lost = counts.lost + facts.lost_elsewhere;
  const auto wanted = static_cast<int>(facts.wanted.size());
  if (wanted - lost < facts.min_workers) {
    decision.verdict = Verdict::kTooFew;
    decision.reason = fmt::format(
        "{} of {} workers failed and may not be started again, and {} "
        "are needed",
        lost, wanted, facts.min_workers);
  } else if (counts.alive == 0 && counts.open == 0 &&
             (counts.finished > 0 || facts.is_done_elsewhere)) {
    decision.verdict = Verdict::kDone;
    decision.reason = fmt::format("{} finished, {} lost", counts.finished, counts.lost);
  }
}

}  // namespace

WorkerState after_exit(const WorkerState& worker, const WorkerExit& exit, int max_restarts,
                       Time now, uint64_t random) {
  WorkerState next = worker;
  next.is_told = false;
  next.is_early = exit.signal == 0 && now - worker.started < base::kEarlyFailureMax;
  next.hands_over = false;
  if (worker.phase == WorkerPhase::kStopping || worker.hands_over) {
    next.phase = WorkerPhase::kIdle;
  } else if (exit.exit_code == 0 && exit.signal == 0) {
    next.phase = WorkerPhase::kFinished;
  } else if (worker.restarts >= max_restarts) {
    next.phase = WorkerPhase::kLost;
  } else {
    next.phase = WorkerPhase::kPaused;
    ++next.restarts;
    next.ready = now + pause_before(next.restarts, random);
  }
  return next;
}

WorkerState after_report(const WorkerState& worker, bool has_any_worked) {
  WorkerState next = worker;
  next.is_told = true;
  const bool is_first_life = worker.restarts == 1;  // it would have its first restart
  if (worker.phase == WorkerPhase::kPaused && worker.is_early && is_first_life && !has_any_worked) {
    next.phase = WorkerPhase::kLost;
    --next.restarts;
  }
  return next;
}

WorkerDecision decide_workers(const NodeFacts& facts, Time now) {
  WorkerDecision decision;
  judge(facts, decision);
  if (decision.verdict != Verdict::kGoOn) return decision;
  for (size_t i = 0; i < facts.workers.size(); ++i) {
    const WorkerState& worker = facts.workers[i];
    if (facts.is_ending || !is_wanted_here(facts, i)) {
      const bool ends_itself = facts.handing_over.contains(facts.first + static_cast<int>(i));
      const bool is_asked = facts.is_ending || !ends_itself;
      if (is_asked && worker.phase == WorkerPhase::kRunning) decision.stop.push_back(i);
      continue;
    }
    // Its next life starts once the end of the last one is reported. Otherwise that end would be
    // taken for the new life's.
    if (!worker.is_told) continue;
    if (worker.phase == WorkerPhase::kPaused && worker.ready > now) {
      decision.again = std::min(decision.again, worker.ready);
    } else if (worker.phase == WorkerPhase::kPaused || worker.phase == WorkerPhase::kIdle) {
      decision.start.push_back(i);
    }
  }
  return decision;
}

}  // namespace ffdl::launch
