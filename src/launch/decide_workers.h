#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ffdl/types.h"
#include "launch/launcher.h"
#include "launch/wanted_workers.h"

// Decides which workers of a node to start or stop, and when a job is over.
namespace ffdl::launch {

enum class WorkerPhase {
  kIdle,  // not started, or stopped because it was not wanted
  kRunning,
  kStopping,  // asked to end
  kPaused,    // it failed, and will be started again
  kFinished,  // it ended with 0
  kLost,      // it failed, and will not be started again
};

struct WorkerState {
  WorkerPhase phase = WorkerPhase::kIdle;
  int restarts = 0;
  Time started{};           // the begin of its last life
  Time ready{};             // kPaused: the earliest start
  bool is_early = false;    // kPaused: its last life was short, and ended with an exit status
  bool is_told = true;      // the end of its last life has been reported to the job
  bool hands_over = false;  // its end, with any exit status, does not count for the job
};

// Returns the state of a worker whose process has ended. `random` varies the pause, so that workers
// that fail together do not restart together.
WorkerState after_exit(const WorkerState& worker, const WorkerExit& exit, int max_restarts,
                       Time now, uint64_t random);

// Returns the state of a worker whose end has been reported. A program that fails early in its
// first life, before any worker has worked, would most likely fail again: it is not started again.
// `has_any_worked`: one has joined the job, or has lived for long.
WorkerState after_report(const WorkerState& worker, bool has_any_worked);

struct NodeFacts {
  std::vector<WorkerState> workers{};  // this node's workers
  int first = 0;                       // the first one's number in the job
  WantedWorkers wanted{};              // the job's request
  std::set<int> handing_over{};        // workers whose place another takes: they end by themselves
  int min_workers = 1;                 // the job's minimum
  int lost_elsewhere = 0;              // wanted workers lost on other nodes
  bool is_done_elsewhere = false;      // a node has ended because its workers had finished
  bool is_ending = false;              // all workers are to be stopped
};

enum class Verdict { kGoOn, kEnded, kDone, kTooFew };

struct WorkerDecision {
  std::vector<size_t> start{};  // indices of NodeFacts::workers
  std::vector<size_t> stop{};
  Time again = kNoDeadline;  // time at which the decision may change without an event
  Verdict verdict = Verdict::kGoOn;
  std::string reason{};  // reason of the verdict
};

// Decides for one node. A finished worker is not started again, and a lost one is not replaced. The
// job continues while min_workers of the wanted workers are left.
WorkerDecision decide_workers(const NodeFacts& facts, Time now);

}  // namespace ffdl::launch
