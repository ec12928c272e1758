#include "ffdl/elastic_policy.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "ffdl/policy_replay.h"
#include "record.h"
#include "status.h"
#include "steering.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

WallTime wall_time(double seconds) { return WallTime(duration_of("now_s", seconds)); }

void bind_observation(py::module_& module) {
  Record<MetricValue> value(
      module, "MetricValue",
      "What the members of a job said of one metric: their sum, and how many\n"
      "they were.");
  value.field("sum", &MetricValue::sum).field("members", &MetricValue::members);
  value.type()
      .def(py::init([](double sum, int members) { return MetricValue{sum, members}; }),
           py::arg("sum"), py::arg("members") = 1)
      .def_property_readonly("mean", &MetricValue::mean, "Over the members that said anything.");
  Record<SizeSpeed> speed(
      module, "SizeSpeed",
      "How fast a job was with so many `workers`: samples_per_s, and age_s ago.");
  speed.field("workers", &SizeSpeed::workers).field("samples_per_s", &SizeSpeed::samples_per_s);
  speed.type()
      .def(py::init([](int workers, double samples_per_s, double age_s) {
             return SizeSpeed{workers, samples_per_s, duration_of("age_s", age_s)};
           }),
           py::arg("workers"), py::arg("samples_per_s"), py::arg("age_s") = 0.0)
      .def_property_readonly("age_s", [](const SizeSpeed& s) { return seconds_of(s.age); });
  Record<Observation> seen(module, "Observation",
                           R"(A job as a policy sees it: means over some steps in one world.

workers; step: the last of them. step_s: of one step. samples_per_s: of all workers; 0: not known.
communication_share: of a step in which a member does not compute. speeds: a SizeSpeed of each size
that was measured. idle_workers: that nobody uses, or None. metrics: the application's own, a
MetricValue of each name.)");
  seen.field("workers", &Observation::workers)
      .field("step", &Observation::step)
      .field("step_s", &Observation::step_s)
      .field("samples_per_s", &Observation::samples_per_s)
      .field("communication_share", &Observation::communication_share)
      .field("speeds", &Observation::speeds)
      .field("idle_workers", &Observation::idle_workers)
      .field("metrics", &Observation::metrics);
  seen.type().def(
      py::init([](int workers, uint64_t step, double step_s, double samples_per_s,
                  double communication_share, std::vector<SizeSpeed> speeds,
                  std::optional<int> idle_workers, std::map<std::string, MetricValue> metrics) {
        return Observation{workers,
                           step,
                           step_s,
                           samples_per_s,
                           communication_share,
                           std::move(speeds),
                           idle_workers,
                           std::move(metrics)};
      }),
      py::kw_only(), py::arg("workers"), py::arg("step") = 0, py::arg("step_s") = 0.0,
      py::arg("samples_per_s") = 0.0, py::arg("communication_share") = 0.0,
      py::arg("speeds") = std::vector<SizeSpeed>(), py::arg("idle_workers") = py::none(),
      py::arg("metrics") = std::map<std::string, MetricValue>());
  Record<SizeDecision> decision(module, "SizeDecision",
                                "How many workers are right, and the reason.");
  decision.field("workers", &SizeDecision::workers).field("reason", &SizeDecision::reason);
  decision.type().def(py::init([](int workers, std::string reason) {
                        return SizeDecision{workers, std::move(reason)};
                      }),
                      py::arg("workers"), py::arg("reason") = "");
}

template <class Options>
void bind_make(py::module_& module) {
  module.def(
      "make_policy",
      [](const Options& options) { return PolicyHandle{take(make_policy(options))}; },
      py::arg("options"), "The built-in policy of these options. Raises InvalidArgument.");
}

void bind_options(py::module_& module) {
  const EfficiencyPolicyOptions e;
  py::class_<EfficiencyPolicyOptions>(
      module, "EfficiencyPolicyOptions",
      "As many workers as are worth it: one more counts as what it adds to the speed, over what\n"
      "each before it gives.")
      .def(py::init([](double grow_above, double shrink_below, double trusted_for_s) {
             return EfficiencyPolicyOptions{grow_above, shrink_below,
                                            duration_of("trusted_for_s", trusted_for_s)};
           }),
           py::kw_only(), py::arg("grow_above") = e.grow_above,
           py::arg("shrink_below") = e.shrink_below,
           py::arg("trusted_for_s") = seconds_of(e.trusted_for));
  py::class_<QueuePolicyOptions>(module, "QueuePolicyOptions",
                                 "As many workers as the sum of a metric needs.")
      .def(py::init([](double per_worker, std::string metric) {
             return QueuePolicyOptions{std::move(metric), per_worker};
           }),
           py::kw_only(), py::arg("per_worker"), py::arg("metric") = QueuePolicyOptions{}.metric);
  py::class_<NoisePolicyOptions>(
      module, "NoisePolicyOptions",
      "As many workers as the noise scale of the gradients makes useful.")
      .def(py::init([](double samples_per_worker, std::string metric) {
             return NoisePolicyOptions{std::move(metric), samples_per_worker};
           }),
           py::kw_only(), py::arg("samples_per_worker"),
           py::arg("metric") = NoisePolicyOptions{}.metric);
  py::class_<SchedulePolicyOptions>(
      module, "SchedulePolicyOptions",
      "So many workers from a time of the day on. sizes: pairs of seconds since midnight, and\n"
      "workers.")
      .def(py::init([](const std::vector<std::pair<double, int>>& sizes, double utc_offset_s) {
             SchedulePolicyOptions options;
             for (const auto& [from_s, workers] : sizes) {
               options.sizes.push_back({duration_of("from", from_s), workers});
             }
             options.utc_offset = duration_of("utc_offset_s", utc_offset_s);
             return options;
           }),
           py::kw_only(), py::arg("sizes"), py::arg("utc_offset_s") = 0.0);
  py::class_<IdlePolicyOptions>(module, "IdlePolicyOptions",
                                "All workers that nobody else uses, but `keep_idle`.")
      .def(py::init([](int keep_idle) { return IdlePolicyOptions{keep_idle}; }), py::kw_only(),
           py::arg("keep_idle") = IdlePolicyOptions{}.keep_idle);
  bind_make<EfficiencyPolicyOptions>(module);
  bind_make<QueuePolicyOptions>(module);
  bind_make<NoisePolicyOptions>(module);
  bind_make<SchedulePolicyOptions>(module);
  bind_make<IdlePolicyOptions>(module);
}

void bind_steady(py::module_& module) {
  const SteadyOptions d;
  Record<SteadyOptions> steady(module, "SteadyOptions",
                               R"(What every policy is held to.

min_workers, max_workers. cooldown_s: after a change the size stays for so long. confirmations: so
many times in a row the policy must want more, or fewer. tolerance: a change by less than this part
of the present size is none. step_max: so many workers at once, at most; 0: no bound.)");
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
      module, "LoadedPolicy",
      "A policy from a file, and what it is held to: steady, SteadyOptions.")
      .def_property_readonly(
          "policy",
          [](const std::shared_ptr<LoadedPolicy>& loaded) {
            return PolicyHandle{std::shared_ptr<const ElasticPolicy>(loaded, loaded->policy.get())};
          })
      .def_readonly("steady", &LoadedPolicy::steady);
}

void bind_replay(py::module_& module) {
  Record<TracePoint> point(module, "TracePoint",
                           "What was seen of a job: an observation, `at_s` since 1970 (UTC).");
  point.field("observation", &TracePoint::observation);
  point.type()
      .def(py::init([](double at_s, const Observation& observation) {
             return TracePoint{wall_time(at_s), observation};
           }),
           py::arg("at_s"), py::arg("observation"))
      .def_property_readonly(
          "at_s", [](const TracePoint& p) { return seconds_of(p.at.time_since_epoch()); });
  Record<ReplayPoint> replayed(
      module, "ReplayPoint",
      "The workers from `at_s` on, those that the policy proposed, and the reason.");
  replayed.field("workers", &ReplayPoint::workers)
      .field("proposed", &ReplayPoint::proposed)
      .field("reason", &ReplayPoint::reason);
  replayed.type().def_property_readonly(
      "at_s", [](const ReplayPoint& p) { return seconds_of(p.at.time_since_epoch()); });
  py::class_<PolicyReplay>(module, "PolicyReplay",
                           R"(What sizes a policy would have asked for.

points: a ReplayPoint of each TracePoint. changes; reversals: those that take one back within the
window. oscillation: their part of the changes. unmeasured: points at a size that the trace has no
speed of. seconds, worker_seconds, mean_workers.)")
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
      py::arg("file"), "The TracePoints of a log of decisions. Raises NotFound, InvalidArgument.");
  module.def(
      "replay_policy",
      [](const std::vector<TracePoint>& trace, const py::object& policy,
         const SteadyOptions& steady, std::optional<int> first_workers, double reversal_window_s) {
        const auto raised = std::make_shared<Raised>();
        const auto asked = policy_of(policy, raised);
        auto replay =
            replay_policy(trace, *asked, steady,
                          {first_workers, duration_of("reversal_window_s", reversal_window_s)});
        raised->rethrow();
        return take(std::move(replay));
      },
      py::arg("trace"), py::arg("policy"), py::arg("steady") = SteadyOptions{}, py::kw_only(),
      py::arg("first_workers") = py::none(),
      py::arg("reversal_window_s") = seconds_of(ReplayOptions{}.reversal_window),
      "A PolicyReplay of any policy: an ElasticPolicy, or an object with decide(observation,\n"
      "now_s) that returns a SizeDecision. Raises InvalidArgument, and what decide() raises.");
}

}  // namespace

void bind_elastic_policy(py::module_& module) {
  bind_observation(module);
  py::class_<PolicyHandle>(module, "ElasticPolicy",
                           R"(How many workers a job should have, by what it says of itself.

One of your own is any object with decide(observation, now_s) that returns a SizeDecision and
depends on nothing but its arguments; now_s is in seconds since 1970, UTC. docs/policies.md. The
header is ffdl/elastic_policy.h.)")
      .def(
          "decide",
          [](const PolicyHandle& handle, const Observation& observation, double now_s) {
            return handle.policy->decide(observation, wall_time(now_s));
          },
          py::arg("observation"), py::arg("now_s"), "The SizeDecision; bounds are not its matter.");
  bind_options(module);
  bind_steady(module);
  module.def(
      "load_policy",
      [](const std::filesystem::path& file) {
        return std::make_shared<LoadedPolicy>(take(load_policy(file)));
      },
      py::arg("file"), "A LoadedPolicy from YAML or JSON. Raises NotFound, InvalidArgument.");
  bind_replay(module);
}

}  // namespace ffdl::python
