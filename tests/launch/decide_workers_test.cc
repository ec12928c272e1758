#include "launch/decide_workers.h"

#include <gtest/gtest.h>

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;
using P = WorkerPhase;

const Time kNow = Time() + 1h;

WorkerState worker(P phase, Time ready = kNow, bool is_told = true) {
  return {.phase = phase, .ready = ready, .is_told = is_told};
}

struct Case {
  const char* name;
  NodeFacts facts;
  std::vector<size_t> start;
  std::vector<size_t> stop;
  Verdict verdict = Verdict::kGoOn;
  Time again = kNoDeadline;
};

const WorkerState kIdle = worker(P::kIdle), kRunning = worker(P::kRunning);
const WorkerState kStopping = worker(P::kStopping), kPaused = worker(P::kPaused);
const WorkerState kFinished = worker(P::kFinished), kLost = worker(P::kLost);
const WorkerState kLater = worker(P::kPaused, kNow + 3s);
const WorkerState kLaterStill = worker(P::kPaused, kNow + 4s);
const Case kCases[] = {
    {"who gives its place away ends by itself",
     {.workers = {kRunning, kRunning, kIdle}, .wanted = {{0}, {2, 1}}, .handing_over = {1}},
     {2},
     {}},
    {"also while the other works",
     {.workers = {kRunning, kRunning, kRunning}, .wanted = {{0}, {2, 1}}, .handing_over = {1}},
     {},
     {}},
    {"it failed: it is not started again",
     {.workers = {kRunning, kPaused, kRunning}, .wanted = {{0}, {2, 1}}, .handing_over = {1}},
     {},
     {}},
    {"the other failed: it is",
     {.workers = {kRunning, kRunning, kPaused}, .wanted = {{0}, {2, 1}}, .handing_over = {1}},
     {2},
     {}},
    {"the other finished: it is asked to end",
     {.workers = {kFinished, kRunning, kFinished}, .wanted = {{0}, {2, 1}}},
     {},
     {1}},
    {"all end: it is asked too",
     {.workers = {kRunning, kRunning, kIdle},
      .wanted = {{0}, {2, 1}},
      .handing_over = {1},
      .is_ending = true},
     {},
     {0, 1}},
    {"it still works: the job is not done",
     {.workers = {kFinished, kRunning, kLost}, .wanted = {{0}, {2, 1}}, .handing_over = {1}},
     {},
     {}},
    {"all that are wanted start",
     {.workers = {kIdle, kIdle, kIdle}, .wanted = first_workers(2)},
     {0, 1},
     {}},
    {"those that run are left alone",
     {.workers = {kRunning, kRunning}, .wanted = first_workers(2)},
     {},
     {}},
    {"who is not wanted is asked to end",
     {.workers = {kRunning, kRunning, kRunning}, .wanted = first_workers(1)},
     {},
     {1, 2}},
    {"who has been asked is not asked again",
     {.workers = {kRunning, kStopping}, .wanted = first_workers(1)},
     {},
     {}},
    {"who is wanted again waits until it has ended",
     {.workers = {kRunning, kStopping}, .wanted = first_workers(2)},
     {},
     {}},
    {"this node has the numbers from 2 on",
     {.workers = {kIdle, kIdle}, .first = 2, .wanted = first_workers(3)},
     {0},
     {}},
    {"a pause that is over", {.workers = {kRunning, kPaused}, .wanted = first_workers(2)}, {1}, {}},
    {"the earliest pause that is not",
     {.workers = {kRunning, kLaterStill, kLater}, .wanted = first_workers(3)},
     {},
     {},
     Verdict::kGoOn,
     kNow + 3s},
    {"not before its end is known",
     {.workers = {kRunning, worker(P::kPaused, kNow, false)}, .wanted = first_workers(2)},
     {},
     {}},
    {"nor where it was stopped",
     {.workers = {kRunning, worker(P::kIdle, kNow, false)}, .wanted = first_workers(2)},
     {},
     {}},
    {"a pause that nobody wants over",
     {.workers = {kRunning, kPaused}, .wanted = first_workers(1)},
     {},
     {}},
    {"who finished is not started again",
     {.workers = {kFinished, kRunning}, .wanted = first_workers(2)},
     {},
     {}},
    {"all finished",
     {.workers = {kFinished, kFinished}, .wanted = first_workers(2)},
     {},
     {},
     Verdict::kDone},
    {"one that is not wanted still runs",
     {.workers = {kFinished, kStopping}, .wanted = first_workers(1)},
     {},
     {},
     Verdict::kGoOn},
    {"one that is not wanted never ran",
     {.workers = {kFinished, kIdle}, .wanted = first_workers(1)},
     {},
     {},
     Verdict::kDone},
    {"finished, with one lost that is not needed",
     {.workers = {kFinished, kLost}, .wanted = first_workers(2)},
     {},
     {},
     Verdict::kDone},
    {"goes on without the lost",
     {.workers = {kRunning, kLost}, .wanted = first_workers(2)},
     {},
     {}},
    {"too few are left",
     {.workers = {kRunning, kLost}, .wanted = first_workers(2), .min_workers = 2},
     {},
     {},
     Verdict::kTooFew},
    {"the only one is lost",
     {.workers = {kLost}, .wanted = first_workers(1)},
     {},
     {},
     Verdict::kTooFew},
    {"a lost one that is not wanted does not count",
     {.workers = {kRunning, kRunning, kLost}, .wanted = first_workers(2), .min_workers = 2},
     {},
     {}},
    {"too few with those lost elsewhere",
     {.workers = {kRunning, kLost},
      .wanted = first_workers(4),
      .min_workers = 3,
      .lost_elsewhere = 1},
     {},
     {},
     Verdict::kTooFew},
    {"none wanted here: waits",
     {.workers = {kIdle}, .first = 2, .wanted = first_workers(2)},
     {},
     {}},
    {"none wanted here, and the others are done",
     {.workers = {kIdle}, .first = 2, .wanted = first_workers(2), .is_done_elsewhere = true},
     {},
     {},
     Verdict::kDone},
    {"the others are done, not we",
     {.workers = {kRunning}, .first = 2, .wanted = first_workers(3), .is_done_elsewhere = true},
     {},
     {}},
    {"to be ended: all are asked, none started",
     {.workers = {kRunning, kIdle, kPaused, kStopping},
      .wanted = first_workers(4),
      .is_ending = true},
     {},
     {0}},
    {"ended",
     {.workers = {kIdle, kPaused, kFinished, kLost}, .wanted = first_workers(4), .is_ending = true},
     {},
     {},
     Verdict::kEnded},
};

TEST(DecideWorkers, Table) {
  for (const Case& one : kCases) {
    const WorkerDecision decision = decide_workers(one.facts, kNow);
    EXPECT_EQ(decision.start, one.start) << one.name;
    EXPECT_EQ(decision.stop, one.stop) << one.name;
    EXPECT_EQ(decision.verdict, one.verdict) << one.name;
    EXPECT_EQ(decision.again, one.again) << one.name;
  }
}

TEST(DecideWorkers, TooFewSaysHowMany) {
  const NodeFacts facts = {.workers = {worker(P::kRunning), worker(P::kLost)},
                           .wanted = first_workers(2),
                           .min_workers = 2};
  EXPECT_EQ(decide_workers(facts, kNow).reason,
            "1 of 2 workers failed and may not be started again, and 2 are needed");
}

TEST(AfterExit, WhatBecomesOfAWorker) {
  const WorkerState running = worker(P::kRunning);
  EXPECT_EQ(after_exit(running, {.exit_code = 0}, 1, kNow, 0).phase, P::kFinished);
  EXPECT_EQ(after_exit(running, {.exit_code = 3}, 1, kNow, 0).phase, P::kPaused);
  EXPECT_EQ(after_exit(running, {.signal = 9}, 1, kNow, 0).phase, P::kPaused);
  EXPECT_EQ(after_exit(running, {.signal = 9}, 0, kNow, 0).phase, P::kLost);
  EXPECT_EQ(after_exit(worker(P::kStopping), {.signal = 9}, 0, kNow, 0).phase, P::kIdle);
  EXPECT_FALSE(after_exit(running, {.exit_code = 0}, 1, kNow, 0).is_told);
  WorkerState hands_over = running;
  hands_over.hands_over = true;
  for (const int exit_code : {0, 3}) {
    const WorkerState ended = after_exit(hands_over, {.exit_code = exit_code}, 1, kNow, 0);
    EXPECT_EQ(ended.phase, P::kIdle);
    EXPECT_EQ(ended.restarts, 0);
    EXPECT_FALSE(ended.hands_over) << "its next life does not";
  }
}

TEST(AfterExit, CountsRestarts) {
  WorkerState state = worker(P::kRunning);
  for (int restart = 1; restart <= 2; ++restart) {
    state = after_exit(state, {.exit_code = 1}, 2, kNow, 0);
    EXPECT_EQ(state.phase, P::kPaused);
    EXPECT_EQ(state.restarts, restart);
    state.phase = P::kRunning;
  }
  state = after_exit(state, {.exit_code = 1}, 2, kNow, 0);
  EXPECT_EQ(state.phase, P::kLost);
  EXPECT_EQ(state.restarts, 2);
}

TEST(AfterReport, WhoFailsEarlyBeforeAnyHasJoinedIsLost) {
  WorkerState running = worker(P::kRunning);
  running.started = kNow - 59s;
  WorkerState second_life = running;
  second_life.restarts = 1;
  WorkerState long_ago = running;
  long_ago.started = kNow - 61s;
  const struct {
    const char* what;
    WorkerState before;
    WorkerExit exit;
    bool has_any_joined;
    WorkerPhase phase;
  } rows[] = {
      {"a line that cannot work", running, {.exit_code = 1}, false, P::kLost},
      {"others have joined", running, {.exit_code = 1}, true, P::kPaused},
      {"killed", running, {.signal = 9}, false, P::kPaused},
      {"it had run for long", long_ago, {.exit_code = 1}, false, P::kPaused},
      {"it has been started again before", second_life, {.exit_code = 1}, false, P::kPaused},
      {"it has finished", running, {.exit_code = 0}, false, P::kFinished},
  };
  for (const auto& row : rows) {
    const WorkerState ended = after_exit(row.before, row.exit, 3, kNow, 0);
    const WorkerState reported = after_report(ended, row.has_any_joined);
    EXPECT_EQ(reported.phase, row.phase) << row.what;
    EXPECT_TRUE(reported.is_told) << row.what;
    EXPECT_EQ(reported.restarts, row.before.restarts + (row.phase == P::kPaused ? 1 : 0))
        << row.what;
  }
}

TEST(AfterExit, PausesDoubleUpToALimitAndDiffer) {
  constexpr uint64_t kMost = UINT64_MAX;
  Duration before{};
  for (int restarts = 0; restarts < 200; ++restarts) {
    WorkerState state = worker(P::kRunning);
    state.restarts = restarts;
    const auto pause = [&](uint64_t random) {
      return after_exit(state, {.exit_code = 1}, 1000, kNow, random).ready - kNow;
    };
    EXPECT_GE(pause(0), 100ms);
    EXPECT_LE(pause(kMost), 30s);
    EXPECT_NEAR(static_cast<double>(pause(kMost).count()),
                2 * static_cast<double>(pause(0).count()), 1e3);
    if (pause(kMost) < 29s) {
      EXPECT_GE(pause(0), before);
    }
    before = pause(kMost) - 1us;
  }
}

}  // namespace
}  // namespace ffdl::launch
