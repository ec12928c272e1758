#include "benchmarks/rescale/series.h"

#include <fmt/format.h>

#include <utility>

namespace ffdl::bench {
namespace {

constexpr int kAttempts = 5;

// Returns nothing if too few steps around a change are undisturbed. The world then has changed once
// more, as where a busy machine holds up a member for longer than its lease.
Result<std::optional<Cycle>> try_cycle(Training& training, const Series& series, End end) {
  const int steps = series.rule.steps_of_a_world();
  FFDL_RETURN_IF_ERROR(training.wait(1, steps));
  FFDL_ASSIGN_OR_RETURN(const Time came, training.add());
  FFDL_RETURN_IF_ERROR(training.wait(2, steps));
  FFDL_ASSIGN_OR_RETURN(const auto with_two, training.steps());
  FFDL_ASSIGN_OR_RETURN(const Time went, training.remove(end));
  FFDL_RETURN_IF_ERROR(training.wait(1, steps));
  FFDL_ASSIGN_OR_RETURN(const auto all, training.steps());
  const auto out = pause_after(with_two, came, series.rule);
  const auto calm = pause_of_nothing(with_two, series.rule);
  const auto back = pause_after(all, went, series.rule);
  std::optional<Cycle> cycle;
  if (out && calm && back) cycle = {*out, *calm, *back};
  return cycle;
}

Result<Cycle> one_cycle(Training& training, const Series& series, End end) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    FFDL_ASSIGN_OR_RETURN(const auto cycle, try_cycle(training, series, end));
    if (cycle) return *cycle;
  }
  return Status(StatusCode::kInternal,
                fmt::format("look for a pause: in each of {} tries there were too few steps around "
                            "it, because the world changed once more; is this machine busy?",
                            kAttempts));
}

}  // namespace

void series_rows(Suite& suite, const Series& series, End end, std::vector<ValueSpec> rows,
                 const std::function<std::vector<double>(const Cycle&)>& values,
                 AuditResult& audits) {
  const std::string name = rows.front().name;
  if (!suite.wants(name)) return;
  const auto training = Training::start(series.start_worker);
  if (!training.ok() && training.status().code() == StatusCode::kNotFound) {
    return suite.missing(name, training.status().to_string());
  }
  if (!training.ok()) return suite.failed(name, training.status());
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
  audits.steps += audit->steps;
  audits.steps_lost += audit->steps_lost;
  audits.samples_lost += audit->samples_lost;
  audits.samples_repeated += audit->samples_repeated;
}

ValueSpec pause_row(std::string name, std::optional<double> target_ms, std::string note) {
  ValueSpec spec;
  spec.name = std::move(name);
  spec.unit = "ms";
  if (target_ms) spec.target = Target{*target_ms, true};
  spec.note = std::move(note);
  return spec;
}

}  // namespace ffdl::bench
