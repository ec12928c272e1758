#include "bindings/base/argument_errors.h"
#include "bindings/bindings.h"
#include "ffdl/version.h"

PYBIND11_MODULE(_ffdl, module) {
  module.doc() = "The compiled part of ffdl; import ffdl instead.";
  module.attr("__version__") = FFDL_VERSION_STRING;
  ffdl::python::bind_update_rule(module);
  ffdl::python::bind_parameter_server(module);
  ffdl::python::bind_learner(module);
  ffdl::python::bind_device_update(module);
  ffdl::python::bind_averaging_learner(module);
  ffdl::python::bind_store(module);
  ffdl::python::bind_shared_memory(module);
  ffdl::python::bind_communicator(module);
  ffdl::python::bind_operation_queue(module);
  ffdl::python::bind_micro_batch_sum(module);
  ffdl::python::bind_all_reduce_subscriber(module);
  ffdl::python::bind_launch_environment(module);
  ffdl::python::bind_step_participant(module);
  ffdl::python::bind_data_source(module);
  ffdl::python::bind_several_sources(module);
  ffdl::python::bind_batch_ring(module);
  ffdl::python::bind_sample_ledger(module);
  ffdl::python::bind_commit_log(module);
  ffdl::python::bind_gradient_noise(module);
  ffdl::python::bind_batch_rule(module);
  ffdl::python::bind_straggler_watch(module);
  ffdl::python::bind_batch_size_controller(module);
  ffdl::python::bind_autoscaler_client(module);
  ffdl::python::bind_checkpoint(module);
  ffdl::python::bind_elastic_policy(module);
  ffdl::python::bind_policy_follower(module);
  ffdl::python::bind_step_metrics(module);
  ffdl::python::bind_session_values(module);
  ffdl::python::bind_session(module);
  ffdl::python::bind_diagnose(module);
  ffdl::python::name_types_in_errors(module);
}
