// Kills a server at every instruction of a fold. A child folds in shared memory, one machine
// instruction at a time. After each instruction that changed something, a successor finishes the
// fold.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ps/server/fold.h"
#include "ps/test_region.h"
#include "support/fork_child.h"

namespace ffdl::ps {
namespace {

struct Case {
  UpdateRuleKind kind;
  uint32_t states;
  bool sparse;
  bool batch = false;
};

Config config_of(const Case& what) {
  Config config = TestRegion::small_config(1, what.states);
  config.parameters = 2 * kBlockFloats - 3;
  config.rule.kind = what.kind;
  config.device_plus_one = what.batch ? 1 : 0;
  return config;
}

// Folds everything that is published: one by one, or as one batch.
bool fold_all(ShardFold<>& fold, const Region& region) {
  std::vector<int> learners;
  for (int l = 0; l < region.learners_max(); ++l) {
    if (region.folded(0, l) < region.learner(l).pub) learners.push_back(l);
  }
  if (region.folds_batches()) return learners.empty() || fold.fold_batch(learners).ok();
  return std::ranges::all_of(learners, [&](int l) { return fold.fold(l).ok(); });
}

// Finishes the interrupted fold and folds the rest, as a server that owns the memory.
bool serve(const Region& region, const UpdateRule& rule) {
  ShardFold<> fold(region, rule, 0);
  return fold.recover().ok() && fold_all(fold, region);
}

std::vector<uint64_t> served_copy(const TestRegion& region, const UpdateRule& rule) {
  TestRegion copy(region->config());
  std::memcpy(copy.bytes().data(), region.bytes().data(), copy.bytes().size());
  EXPECT_TRUE(serve(*copy, rule));
  return copy.contents();
}

// Starts a stopped child that folds when it continues.
pid_t start_folding(const TestRegion& region, const UpdateRule& rule) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    raise(SIGSTOP);
    ShardFold<> fold(*region, rule, 0);
    _exit(fold_all(fold, *region) ? 0 : 1);
  }
  return child;
}

// Keeps this thread, and the children that it forks, on the processor where it runs. Switching
// between a child and its tracer is several times as fast on one processor as between two.
void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

class FoldInstructions : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { stay_on_one_processor(); }
};

TEST_P(FoldInstructions, AKillAtAnyOfThemLosesAndRepeatsNothing) {
  const Case what = GetParam();
  TestRegion region(config_of(what));
  const auto rule = make_update_rule(region->config().rule).value();
  region.publish(0, {{.partition = 0, .begin = 0, .end = 4}});
  ASSERT_TRUE(serve(*region, *rule));  // so that all values and states differ
  region.publish(
      0, {{.partition = 0, .begin = 4, .end = 9}, {.partition = 1, .begin = 0, .end = 2}}, 1,
      what.sparse ? std::optional(std::vector<TouchedRange>{{5, 70}, {500, 530}}) : std::nullopt);
  if (what.batch) region.publish(1, {{.partition = 2, .begin = 0, .end = 3}});
  const std::vector<uint64_t> expected = served_copy(region, *rule);

  const pid_t child = start_folding(region, *rule);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "this system does not let a process trace its child";
  }
  std::vector<std::byte> last(region.bytes().begin(), region.bytes().end());
  int instructions = 0;
  int changes = 0;
  while (WIFSTOPPED(status)) {
    if (std::memcmp(last.data(), region.bytes().data(), last.size()) != 0) {
      std::memcpy(last.data(), region.bytes().data(), last.size());
      ++changes;
      if (served_copy(region, *rule) != expected) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        FAIL() << "killed after instruction " << instructions;
      }
    }
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    ++instructions;
  }
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(region.contents(), expected);
  EXPECT_GT(changes, what.sparse || what.batch ? 10 : 100) << instructions;
}

INSTANTIATE_TEST_SUITE_P(Rules, FoldInstructions,
                         ::testing::Values(Case{UpdateRuleKind::kSgd, 0, false},
                                           Case{UpdateRuleKind::kMomentum, 1, false},
                                           Case{UpdateRuleKind::kAdam, 2, false},
                                           Case{UpdateRuleKind::kMomentum, 1, true},
                                           Case{UpdateRuleKind::kMomentum, 1, false, true}));

}  // namespace
}  // namespace ffdl::ps
