#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/trainer.h"
#include "benchmarks/rescale/training.h"
#include "ffdl/membership.h"

namespace ffdl::bench {
namespace {

constexpr int kSteps = 20;  // of a world, before something happens to it

// Returns the milliseconds from the kill until the worker that stood still has made a step again.
Result<double> stall_then_kill(Training& training, Reports reports) {
  FFDL_RETURN_IF_ERROR(training.add().status());
  FFDL_RETURN_IF_ERROR(training.wait(2, kSteps));
  FFDL_ASSIGN_OR_RETURN(const Time killed, training.stall_then_kill(reports));
  FFDL_RETURN_IF_ERROR(training.wait(1, kSteps));
  FFDL_ASSIGN_OR_RETURN(const auto steps, training.steps());
  const auto first = std::ranges::find_if(
      steps, [&](const StepTime& step) { return step.end > killed && step.members == 1; });
  return std::chrono::duration<double, std::milli>(first->end - killed).count();
}

void stall_row(Suite& suite, const std::string& name, Reports reports, const std::string& note) {
  if (!suite.wants(name)) return;
  const auto training = Training::start(trainers({.layers = 1, .rows = 4}));
  if (!training.ok()) return suite.failed(name, training.status());
  suite.measure(ValueSpec{.name = name,
                          .unit = "ms",
                          .sample = [&] { return stall_then_kill(**training, reports); },
                          .samples = 20,
                          .note = note});
}

}  // namespace

void stall_rows(Suite& suite) {
  const MembershipOptions defaults;
  const auto fence = defaults.fence_after + defaults.fence_margin + defaults.lease;
  stall_row(
      suite, "rescale/stall_then_kill_ms", Reports::kNothing,
      fmt::format("one of 2 workers stands still; the other, which trains without it, is killed, "
                  "and the first continues at that moment: from SIGKILL until it has made a step; "
                  "no launcher reports the death; the fence of the dead one takes {:.1f} s",
                  std::chrono::duration<double>(fence).count()));
  stall_row(suite, "rescale/stall_then_kill_ms/launcher", Reports::kDeaths,
            "the same; the death is reported, as ffdl run does");
}

}  // namespace ffdl::bench
