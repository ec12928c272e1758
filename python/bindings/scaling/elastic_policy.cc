#include "ffdl/scaling/elastic_policy.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/scaling/steering.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_step_measurement(py::module_& module) {
  const StepMeasurement d;
  Record<StepMeasurement> speed(module, "StepMeasurement",
                                R"(The measured steps of a job in one configuration.

workers, nodes: the number of workers, and of the nodes on which they ran.
batch: samples of a step, over all workers.
steps: the number of steps.
step_s: their mean time.
sync_s: the part of step_s spent waiting for other workers.
age_s: the seconds since the last of the steps.
samples_per_s: the speed of all workers.)");
  speed.field("workers", &StepMeasurement::workers)
      .field("nodes", &StepMeasurement::nodes)
      .field("batch", &StepMeasurement::batch)
      .field("steps", &StepMeasurement::steps)
      .field("step_s", &StepMeasurement::step_s)
      .field("sync_s", &StepMeasurement::sync_s);
  speed.type()
      .def(py::init([](int workers, int64_t batch, double step_s, int nodes, uint64_t steps,
                       double sync_s, double age_s) {
             return StepMeasurement{
                 workers, nodes, batch, steps, step_s, sync_s, duration_of("age_s", age_s)};
           }),
           py::arg("workers"), py::arg("batch"), py::arg("step_s"), py::kw_only(),
           py::arg("nodes") = d.nodes, py::arg("steps") = d.steps, py::arg("sync_s") = d.sync_s,
           py::arg("age_s") = 0.0)
      .def_property_readonly("samples_per_s", &StepMeasurement::samples_per_s)
      .def_property_readonly("age_s", [](const StepMeasurement& s) { return seconds_of(s.age); });
}

void bind_observation(py::module_& module) {
  Record<MetricValue> value(
      module, "MetricValue",
      "The reports of a job's members on one metric: their sum, and their number.");
  value.field("sum", &MetricValue::sum).field("members", &MetricValue::members);
  value.type()
      .def(py::init([](double sum, int members) { return MetricValue{sum, members}; }),
           py::arg("sum"), py::arg("members") = 1)
      .def_property_readonly("mean", &MetricValue::mean, "Over the members that reported a value.");
  Record<Observation> seen(module, "Observation",
                           R"(A job as a policy sees it: means over some steps in one world.

at_s: the time of the decision, in seconds since 1970, UTC.
workers: the number of workers.
step: the last of the steps.
step_s: of one step.
samples_per_s: of all workers; 0: not known.
communication_share: the part of a step in which a member does not compute.
speeds: a StepMeasurement of each size.
idle_workers: workers that no job uses, or None.
metrics: those of the application, a MetricValue of each name.)");
  seen.field("workers", &Observation::workers)
      .field("step", &Observation::step)
      .field("step_s", &Observation::step_s)
      .field("samples_per_s", &Observation::samples_per_s)
      .field("communication_share", &Observation::communication_share)
      .field("speeds", &Observation::speeds)
      .field("idle_workers", &Observation::idle_workers)
      .field("metrics", &Observation::metrics);
  seen.type().def_property_readonly(
      "at_s", [](const Observation& o) { return seconds_of(o.at.time_since_epoch()); });
  seen.type().def(
      py::init([](int workers, double at_s, uint64_t step, double step_s, double samples_per_s,
                  double communication_share, std::vector<StepMeasurement> speeds,
                  std::optional<int> idle_workers, std::map<std::string, MetricValue> metrics) {
        return Observation{WallTime(duration_of("at_s", at_s)),
                           workers,
                           step,
                           step_s,
                           samples_per_s,
                           communication_share,
                           std::move(speeds),
                           idle_workers,
                           std::move(metrics)};
      }),
      py::kw_only(), py::arg("workers"), py::arg("at_s") = 0.0, py::arg("step") = 0,
      py::arg("step_s") = 0.0, py::arg("samples_per_s") = 0.0, py::arg("communication_share") = 0.0,
      py::arg("speeds") = std::vector<StepMeasurement>(), py::arg("idle_workers") = py::none(),
      py::arg("metrics") = std::map<std::string, MetricValue>());
  Record<SizeDecision> decision(module, "SizeDecision",
                                "The right number of workers, and the reason.");
  decision.field("workers", &SizeDecision::workers).field("reason", &SizeDecision::reason);
  decision.type().def(py::init([](int workers, std::string reason) {
                        return SizeDecision{workers, std::move(reason)};
                      }),
                      py::arg("workers"), py::arg("reason") = "");
}

PolicyHandle handle_of(Result<std::unique_ptr<ElasticPolicy>> made) {
  return PolicyHandle{take(std::move(made))};
}

void bind_built_in(py::module_& module) {
  module.def(
      "efficiency_policy",
      [](double grow_above, double shrink_below, double trusted_for_s) {
        return handle_of(efficiency_policy(grow_above, shrink_below,
                                           duration_of("trusted_for_s", trusted_for_s)));
      },
      py::kw_only(), py::arg("grow_above") = 0.7, py::arg("shrink_below") = 0.5,
      py::arg("trusted_for_s") = 600.0,
      "Returns an ElasticPolicy that uses as many workers as are efficient: one more counts as\n"
      "its gain in speed, over the speed of each before it. Raises InvalidArgument.");
  module.def(
      "queue_policy",
      [](double per_worker, std::string metric) {
        return handle_of(queue_policy(per_worker, std::move(metric)));
      },
      py::arg("per_worker"), py::arg("metric") = "queue_depth",
      "Returns an ElasticPolicy that uses as many workers as the sum of a metric needs. Raises\n"
      "InvalidArgument.");
  module.def(
      "noise_policy",
      [](double samples_per_worker, std::string metric) {
        return handle_of(noise_policy(samples_per_worker, std::move(metric)));
      },
      py::arg("samples_per_worker"), py::arg("metric") = "noise_scale",
      "Returns an ElasticPolicy that uses as many workers as the noise scale of the gradients\n"
      "makes useful. Raises InvalidArgument.");
  module.def(
      "schedule_policy",
      [](const std::vector<std::pair<double, int>>& sizes, double utc_offset_s) {
        std::vector<std::pair<Duration, int>> of_day;
        of_day.reserve(sizes.size());
        for (const auto& [from_s, workers] : sizes) {
          of_day.emplace_back(duration_of("from", from_s), workers);
        }
        return handle_of(
            schedule_policy(std::move(of_day), duration_of("utc_offset_s", utc_offset_s)));
      },
      py::arg("sizes"), py::arg("utc_offset_s") = 0.0,
      "Returns an ElasticPolicy that uses a number of workers from a time of the day on.\n"
      "sizes: pairs of seconds since midnight, and workers. Raises InvalidArgument.");
  module.def(
      "idle_policy", [](int keep_idle) { return handle_of(idle_policy(keep_idle)); },
      py::arg("keep_idle") = 0,
      "Returns an ElasticPolicy that uses all workers that no other job uses, except\n"
      "`keep_idle`. Raises InvalidArgument.");
}

void bind_steady(py::module_& module) {
  const SteadyOptions d;
  Record<SteadyOptions> steady(module, "SteadyOptions",
                               R"(The limits of every policy.

min_workers, max_workers: the bounds of the size.
cooldown_s: the time that the size stays after a change.
confirmations: the number of times in a row that the policy must want more, or fewer.
tolerance: a change by less than this part of the present size is ignored.
step_max: the most workers in one change; 0: no bound.)");
  steady.field("min_workers", &SteadyOptions::min_workers)
      .field("max_workers", &SteadyOptions::max_workers)
      .field("confirmations", &SteadyOptions::confirmations)
      .field("tolerance", &SteadyOptions::tolerance)
      .field("step_max", &SteadyOptions::step_max);
  steady.type()
      .def(py::init([](int min_workers, int max_workers, double cooldown_s, int confirmations,
                       double tolerance, int step_max) {
             SteadyOptions options{
                 min_workers,   max_workers, duration_of("cooldown_s", cooldown_s),
                 confirmations, tolerance,   step_max};
             check(check_steady(options));
             return options;
           }),
           py::kw_only(), py::arg("min_workers") = d.min_workers,
           py::arg("max_workers") = d.max_workers, py::arg("cooldown_s") = seconds_of(d.cooldown),
           py::arg("confirmations") = d.confirmations, py::arg("tolerance") = d.tolerance,
           py::arg("step_max") = d.step_max)
      .def_property_readonly("cooldown_s",
                             [](const SteadyOptions& s) { return seconds_of(s.cooldown); });
  py::class_<LoadedPolicy, std::shared_ptr<LoadedPolicy>>(
      module, "LoadedPolicy", "A policy from a file, and its limits: steady, SteadyOptions.")
      .def_property_readonly(
          "policy",
          [](const std::shared_ptr<LoadedPolicy>& loaded) {
            return PolicyHandle{std::shared_ptr<const ElasticPolicy>(loaded, loaded->policy.get())};
          })
      .def_readonly("steady", &LoadedPolicy::steady);
}

void bind_replay(py::module_& module) {
  Record<ReplayPoint> replayed(
      module, "ReplayPoint",
      "The workers from `at_s` on, those that the policy proposed, and the reason.");
  replayed.field("workers", &ReplayPoint::workers)
      .field("proposed", &ReplayPoint::proposed)
      .field("reason", &ReplayPoint::reason);
  replayed.type().def_property_readonly(
      "at_s", [](const ReplayPoint& p) { return seconds_of(p.at.time_since_epoch()); });
  py::class_<PolicyReplay>(module, "PolicyReplay",
                           R"(The sizes that a policy would have requested.

points: a ReplayPoint of each observation.
changes: the number of changes of the size.
reversals: changes that take one back within the window.
oscillation: the part of the changes that are reversals.
unmeasured: points at a size for which the trace has no speed.
seconds: from the first to the last point.
worker_seconds, mean_workers: the workers over that time, as a sum and as a mean.)")
      .def_readonly("points", &PolicyReplay::points)
      .def_readonly("changes", &PolicyReplay::changes)
      .def_readonly("reversals", &PolicyReplay::reversals)
      .def_readonly("unmeasured", &PolicyReplay::unmeasured)
      .def_readonly("seconds", &PolicyReplay::seconds)
      .def_readonly("worker_seconds", &PolicyReplay::worker_seconds)
      .def_property_readonly("oscillation", &PolicyReplay::oscillation)
      .def_property_readonly("mean_workers", &PolicyReplay::mean_workers);
  module.def(
      "load_policy_trace",
      [](const std::filesystem::path& file) { return take(load_policy_trace(file)); },
      py::arg("file"),
      "Returns the Observations of a log of decisions. Raises NotFound,\n"
      "InvalidArgument.");
  module.def(
      "replay_policy",
      [](const std::vector<Observation>& trace, const py::object& policy,
         const SteadyOptions& steady, std::optional<int> first_workers, double reversal_window_s) {
        const auto raised = std::make_shared<Raised>();
        const auto asked = policy_of(policy, raised);
        auto replay = replay_policy(trace, *asked, steady, first_workers,
                                    duration_of("reversal_window_s", reversal_window_s));
        raised->rethrow();
        return take(std::move(replay));
      },
      py::arg("trace"), py::arg("policy"), py::arg("steady") = SteadyOptions{}, py::kw_only(),
      py::arg("first_workers") = py::none(), py::arg("reversal_window_s") = 600.0,
      "Returns a PolicyReplay of any policy: an ElasticPolicy, or an object with\n"
      "decide(observation) that returns a SizeDecision. Raises InvalidArgument, and\n"
      "the exceptions of decide().");
}

}  // namespace

void bind_elastic_policy(py::module_& module) {
  bind_step_measurement(module);
  bind_observation(module);
  py::class_<PolicyHandle>(module, "ElasticPolicy",
                           R"(Decides the number of workers of a job from its measurements.

A policy of your own is any object with decide(observation) that returns a SizeDecision and
depends only on its argument. docs/guide/policies.md. The header is
ffdl/scaling/elastic_policy.h.)")
      .def(
          "decide",
          [](const PolicyHandle& handle, const Observation& observation) {
            return handle.policy->decide(observation);
          },
          py::arg("observation"), "Returns the SizeDecision; no bounds are applied.");
  bind_built_in(module);
  bind_steady(module);
  module.def(
      "load_policy",
      [](const std::filesystem::path& file) {
        return std::make_shared<LoadedPolicy>(take(load_policy(file)));
      },
      py::arg("file"),
      "Returns a LoadedPolicy from YAML or JSON. Raises NotFound,\n"
      "InvalidArgument.");
  bind_replay(module);
}

}  // namespace ffdl::python
