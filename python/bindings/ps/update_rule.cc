#include "ffdl/ps/update_rule.h"

#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>

#include <string>

#include "bindings/base/status.h"
#include "bindings/bindings.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

void bind_rule_options(py::module_& module) {
  const UpdateRuleOptions defaults;
  py::class_<UpdateRuleOptions>(module, "UpdateRuleOptions", R"(A built-in update rule.

The numbers have PyTorch's names and meaning.

kind: "sgd", "momentum", "nesterov", "adagrad", "adam", "adamw" or "average". "average" uses none of
the numbers: it is for the server of AveragingLearners.
learning_rate: of each kind but average.
momentum: of momentum and nesterov.
beta1, beta2: of adam and adamw.
epsilon: of adagrad, adam and adamw.
weight_decay: added to the gradient; with adamw taken from the weight instead.

Raises InvalidArgument for an unknown kind.)")
      .def(py::init([](const std::string& kind, float learning_rate, float momentum, float beta1,
                       float beta2, float epsilon, float weight_decay) {
             return UpdateRuleOptions{.kind = take(parse_update_rule(kind)),
                                      .learning_rate = learning_rate,
                                      .momentum = momentum,
                                      .beta1 = beta1,
                                      .beta2 = beta2,
                                      .epsilon = epsilon,
                                      .weight_decay = weight_decay};
           }),
           py::arg("kind") = std::string(to_string(defaults.kind)), py::kw_only(),
           py::arg("learning_rate") = defaults.learning_rate,
           py::arg("momentum") = defaults.momentum, py::arg("beta1") = defaults.beta1,
           py::arg("beta2") = defaults.beta2, py::arg("epsilon") = defaults.epsilon,
           py::arg("weight_decay") = defaults.weight_decay)
      .def_property_readonly(
          "kind",
          [](const UpdateRuleOptions& options) { return std::string(to_string(options.kind)); })
      .def_readonly("learning_rate", &UpdateRuleOptions::learning_rate)
      .def_readonly("momentum", &UpdateRuleOptions::momentum)
      .def_readonly("beta1", &UpdateRuleOptions::beta1)
      .def_readonly("beta2", &UpdateRuleOptions::beta2)
      .def_readonly("epsilon", &UpdateRuleOptions::epsilon)
      .def_readonly("weight_decay", &UpdateRuleOptions::weight_decay);
}

void bind_schedule(py::module_& module) {
  using Decay = LearningRateSchedule::Decay;
  py::native_enum<Decay>(module, "Decay", "enum.Enum", "The decay of the learning rate.")
      .value("CONSTANT", Decay::kConstant)
      .value("LINEAR", Decay::kLinear)
      .value("COSINE", Decay::kCosine)
      .value("STEP", Decay::kStep)
      .finalize();
  const LearningRateSchedule defaults;
  py::class_<LearningRateSchedule>(module, "LearningRateSchedule",
                                   R"(Learning rate over the updates of a run: warm-up, then decay.

warmup_steps: updates over which the factor grows linearly from 1/warmup_steps to 1.
decay_steps: length of a linear or cosine decay, or the period of Decay.STEP.
final_factor: where the decay ends, or the factor per period.)")
      .def(py::init(
               [](Decay decay, uint64_t warmup_steps, uint64_t decay_steps, float final_factor) {
                 return LearningRateSchedule{.decay = decay,
                                             .warmup_steps = warmup_steps,
                                             .decay_steps = decay_steps,
                                             .final_factor = final_factor};
               }),
           py::arg("decay") = defaults.decay, py::kw_only(),
           py::arg("warmup_steps") = defaults.warmup_steps,
           py::arg("decay_steps") = defaults.decay_steps,
           py::arg("final_factor") = defaults.final_factor)
      .def_readonly("decay", &LearningRateSchedule::decay)
      .def_readonly("warmup_steps", &LearningRateSchedule::warmup_steps)
      .def_readonly("decay_steps", &LearningRateSchedule::decay_steps)
      .def_readonly("final_factor", &LearningRateSchedule::final_factor);
  module.def("schedule_factor", &schedule_factor, py::arg("schedule"), py::arg("number"),
             "The factor on the base learning rate at update `number`, 1 for the first.");
}

}  // namespace

void bind_update_rule(py::module_& module) {
  bind_rule_options(module);
  bind_schedule(module);
}

}  // namespace ffdl::python
