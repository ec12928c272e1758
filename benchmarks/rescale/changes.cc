#include <fmt/format.h>

#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/statistics.h"
#include "benchmarks/limits.h"
#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/series.h"
#include "benchmarks/rescale/trainer.h"

namespace ffdl::bench {
namespace {

constexpr const char* kPauses =
    "the worst step of the worker that stays, from the request to 10 steps after the switch, less "
    "the mean of 50 undisturbed ones of its world; time inside end_step()";

// The jobs with the pauses that are measured.
struct Jobs {
  std::string size = {};  // of the state
  Shape shape = {};
  PauseRule rule = {};

  Series series() const { return {.start_worker = trainers(shape), .rule = rule}; }
};

double milliseconds_of_a_copy(const Shape& shape) {
  const DenseModel model(shape);
  const Memory from(model.state_bytes());
  const Memory to(model.state_bytes());
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    times.push_back(1e3 * copy_s(to.data(), from.data(), to.bytes()));
  }
  return median(times);
}

ValueSpec row(const std::string& name, const Jobs& jobs, std::optional<double> target_ms,
              const std::string& note) {
  return pause_row(fmt::format("rescale/{}/{}", name, jobs.size), target_ms, note);
}

void out_and_in_rows(Suite& suite, const Jobs& jobs, double out_target_ms, AuditResult& audits) {
  const double copy_ms = milliseconds_of_a_copy(jobs.shape);
  series_rows(
      suite, jobs.series(), End::kLeaves,
      {row("out_stop_ms", jobs, out_target_ms, fmt::format("1 to 2 workers: {}", kPauses)),
       row("out_total_ms", jobs, 3 * copy_ms,
           fmt::format(
               "the same, all those steps together; a plain copy of the state takes {:.1f} ms",
               copy_ms)),
       row("in_stop_ms", jobs, 2, "2 to 1 workers, one leaves"),
       row("in_total_ms", jobs, std::nullopt, "the same, all those steps together"),
       row("no_event_stop_ms", jobs, std::nullopt,
           "the worst of 11 of the undisturbed steps with 2 workers less the mean of the others"),
       row("no_event_total_ms", jobs, std::nullopt, "those 11 together")},
      [](const Cycle& cycle) {
        return std::vector<double>{cycle.out.stop_ms,   cycle.out.total_ms, cycle.back.stop_ms,
                                   cycle.back.total_ms, cycle.calm.stop_ms, cycle.calm.total_ms};
      },
      audits);
}

void kill_rows(Suite& suite, const Jobs& jobs, AuditResult& audits) {
  const auto stop_of_the_end = [](const Cycle& cycle) {
    return std::vector<double>{cycle.back.stop_ms};
  };
  series_rows(suite, jobs.series(), End::kKilled,
              {row("kill_stop_ms", jobs, 10,
                   "SIGKILL of one of 2 workers, which does not lead; the gradients that are "
                   "computed again are not in it")},
              stop_of_the_end, audits);
  series_rows(suite, jobs.series(), End::kKilledLeader,
              {row("leader_kill_stop_ms", jobs, 50, "the same of the one that leads")},
              stop_of_the_end, audits);
}

void audit_rows(Suite& suite, const AuditResult& sum) {
  if (sum.steps == 0) return;
  const std::string all = fmt::format("of {} steps of all jobs above", sum.steps);
  const auto zero = [&](const char* name, uint64_t value, const std::string& note) {
    suite.measure(ValueSpec{.name = fmt::format("rescale/{}", name),
                            .sample = [value] { return static_cast<double>(value); },
                            .samples = 1,
                            .warm_up = 0,
                            .target = Target{0, true},
                            .note = note});
  };
  zero("steps_lost", sum.steps_lost, fmt::format("below the last one, {}", all));
  zero("samples_lost", sum.samples_lost, fmt::format("below others that were used, {}", all));
  zero("samples_repeated", sum.samples_repeated, fmt::format("used twice, {}", all));
}

}  // namespace

void change_rows(Suite& suite) {
  AuditResult audits;
  Jobs jobs = {.size = "80MB", .shape = {.layers = 10, .rows = 48}};
  if (suite.options().smoke) {
    jobs = {"8MB", {.layers = 1, .rows = 4}, {.undisturbed = 6, .after = 2}};
  }
  out_and_in_rows(suite, jobs, 5, audits);
  kill_rows(suite, jobs, audits);
  if (suite.options().slow) {
    out_and_in_rows(suite, {.size = "800MB", .shape = {.layers = 100, .rows = 12}}, 10, audits);
  }
  audit_rows(suite, audits);
}

}  // namespace ffdl::bench
