#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ffdl/launcher.h"
#include "ffdl/types.h"
#include "launch/wanted_workers.h"

// Which worker of a node to start or stop, and when a job is over.
namespace ffdl::launch {

enum class WorkerPhase {
  kIdle,  // not started, or stopped because it was not wanted
  kRunning,
  kStopping,  // asked to end
  kPaused,    // it failed, and is started again
  kFinished,  // it ended with 0
  kLost,      // it failed, and is not started again
};

struct WorkerState {
  WorkerPhase phase = WorkerPhase::kIdle;
  int restarts = 0;
  Time ready{};             // kPaused: not started before
  bool is_told = true;      // the end of its last life has been reported to the job
  bool hands_over = false;  // that it ends, however it does, means nothing for the job
};

// The state of a worker whose process has ended. `random` makes the pause, so that workers that
// fail together do not come back together.
WorkerState after_exit(const WorkerState& worker, const WorkerExit& exit, int max_restarts,
                       Time now, uint64_t random);

struct NodeFacts {
  std::vector<WorkerState> workers{};  // of this node
  int first = 0;                       // the first one's number in the job
  WantedWorkers wanted{};              // of the job
  std::set<int> handing_over{};        // those whose place another takes: they end by themselves
  int min_workers = 1;                 // of the job
  int lost_elsewhere = 0;              // on other nodes
  bool is_done_elsewhere = false;      // a node has ended because its workers had finished
  bool is_ending = false;              // all are to be stopped
};

enum class Verdict { kGoOn, kEnded, kDone, kTooFew };

struct WorkerDecision {
  std::vector<size_t> start{};  // indices of NodeFacts::workers
  std::vector<size_t> stop{};
  Time again = kNoDeadline;  // when the answer may be another though nothing happened
  Verdict verdict = Verdict::kGoOn;
  std::string reason{};  // of the verdict
};

// A worker that finished is not started again, nor is one that was lost replaced by another: the
// job goes on while min_workers of those that are wanted are left.
WorkerDecision decide_workers(const NodeFacts& facts, Time now);

}  // namespace ffdl::launch
