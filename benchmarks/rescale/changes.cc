#include <fmt/format.h>

#include "benchmarks/harness/memory.h"
#include "benchmarks/harness/statistics.h"
#include "benchmarks/limits.h"
#include "benchmarks/rescale/rows.h"
#include "benchmarks/rescale/training.h"

namespace ffdl::bench {
namespace {

constexpr const char* kPauses =
    "the worst step of the worker that stays, from the request to 10 steps after the switch, less "
    "the mean of 50 undisturbed ones of its world; time inside end_step()";

// A job whose only worker is joined by another, which goes again.
struct Series {
  std::string size = {};  // of the state
  Shape shape = {};
  PauseRule rule = {};
  int samples = 15;
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

// The pauses of the worker that stays.
struct Cycle {
  Pause out;
  Pause calm;  // between the two, for nothing
  Pause back;
};

Result<Pause> known(const std::optional<Pause>& pause) {
  if (pause) return *pause;
  return Status(StatusCode::kInternal, "look for a pause: there are too few steps around it");
}

Result<Cycle> one_cycle(Training& training, const Series& series, End end) {
  const int steps = series.rule.steps_of_a_world();
  FFDL_RETURN_IF_ERROR(training.wait(1, steps));
  FFDL_ASSIGN_OR_RETURN(const Time came, training.add());
  FFDL_RETURN_IF_ERROR(training.wait(2, steps));
  Cycle cycle;
  {
    FFDL_ASSIGN_OR_RETURN(const auto seen, training.steps());
    FFDL_ASSIGN_OR_RETURN(cycle.out, known(pause_after(seen, came, series.rule)));
    FFDL_ASSIGN_OR_RETURN(cycle.calm, known(pause_of_nothing(seen, series.rule)));
  }
  FFDL_ASSIGN_OR_RETURN(const Time went, training.remove(end));
  FFDL_RETURN_IF_ERROR(training.wait(1, steps));
  FFDL_ASSIGN_OR_RETURN(const auto seen, training.steps());
  FFDL_ASSIGN_OR_RETURN(cycle.back, known(pause_after(seen, went, series.rule)));
  return cycle;
}

// What all jobs of the run say of their samples.
struct Audits {
  AuditResult sum;

  void add(const AuditResult& one) {
    sum.steps += one.steps;
    sum.steps_lost += one.steps_lost;
    sum.samples_lost += one.samples_lost;
    sum.samples_repeated += one.samples_repeated;
  }
};

void series_rows(Suite& suite, const Series& series, End end, std::vector<ValueSpec> rows,
                 const std::function<std::vector<double>(const Cycle&)>& values, Audits& audits) {
  if (!suite.wants(rows.front().name)) return;
  const auto training = Training::start(series.shape);
  if (!training.ok()) return suite.failed(rows.front().name, training.status());
  const std::string name = rows.front().name;
  suite.measure(ValuesSpec{.rows = std::move(rows),
                           .sample = [&]() -> Result<std::vector<double>> {
                             FFDL_ASSIGN_OR_RETURN(const Cycle cycle,
                                                   one_cycle(**training, series, end));
                             return values(cycle);
                           },
                           .samples = series.samples,
                           .warm_up = 1});
  const auto audit = (*training)->audit();
  if (!audit.ok()) return suite.failed(name + "/audit", audit.status());
  audits.add(*audit);
}

ValueSpec row(const std::string& name, const Series& series, std::optional<double> target_ms,
              const std::string& note) {
  ValueSpec spec;
  spec.name = fmt::format("rescale/{}/{}", name, series.size);
  spec.unit = "ms";
  if (target_ms) spec.target = Target{*target_ms, true};
  spec.note = note;
  return spec;
}

void out_and_in_rows(Suite& suite, const Series& series, double out_target_ms, Audits& audits) {
  const double copy_ms = milliseconds_of_a_copy(series.shape);
  series_rows(
      suite, series, End::kLeaves,
      {row("out_stop_ms", series, out_target_ms, fmt::format("1 to 2 workers: {}", kPauses)),
       row("out_total_ms", series, 3 * copy_ms,
           fmt::format(
               "the same, all those steps together; a plain copy of the state takes {:.1f} ms",
               copy_ms)),
       row("in_stop_ms", series, 2, "2 to 1 workers, one leaves"),
       row("in_total_ms", series, std::nullopt, "the same, all those steps together"),
       row("no_event_stop_ms", series, std::nullopt,
           "the worst of 11 of the undisturbed steps with 2 workers less the mean of the others"),
       row("no_event_total_ms", series, std::nullopt, "those 11 together")},
      [](const Cycle& cycle) {
        return std::vector<double>{cycle.out.stop_ms,   cycle.out.total_ms, cycle.back.stop_ms,
                                   cycle.back.total_ms, cycle.calm.stop_ms, cycle.calm.total_ms};
      },
      audits);
}

void kill_rows(Suite& suite, const Series& series, Audits& audits) {
  const auto stop_of_the_end = [](const Cycle& cycle) {
    return std::vector<double>{cycle.back.stop_ms};
  };
  series_rows(suite, series, End::kKilled,
              {row("kill_stop_ms", series, 10,
                   "SIGKILL of one of 2 workers, which does not lead; the gradients that are "
                   "computed again are not in it")},
              stop_of_the_end, audits);
  series_rows(suite, series, End::kKilledLeader,
              {row("leader_kill_stop_ms", series, 50, "the same of the one that leads")},
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
  Audits audits;
  Series series = {.size = "80MB", .shape = {.layers = 10, .rows = 48}};
  if (suite.options().smoke) {
    series = {"8MB", {.layers = 1, .rows = 4}, {.undisturbed = 6, .after = 2}};
  }
  out_and_in_rows(suite, series, 5, audits);
  kill_rows(suite, series, audits);
  if (suite.options().slow) {
    out_and_in_rows(suite, {.size = "800MB", .shape = {.layers = 100, .rows = 48}}, 10, audits);
  }
  audit_rows(suite, audits.sum);
}

}  // namespace ffdl::bench
