#pragma once

#include <pybind11/pybind11.h>

// Functions that each add the declarations of one public header to the module. They are called in
// this order, since later ones use the types of earlier ones.
namespace ffdl::python {

void bind_update_rule(pybind11::module_& module);
void bind_parameter_server(pybind11::module_& module);
void bind_learner(pybind11::module_& module);
void bind_device_update(pybind11::module_& module);
void bind_averaging_learner(pybind11::module_& module);
void bind_store(pybind11::module_& module);
void bind_shared_memory(pybind11::module_& module);
void bind_communicator(pybind11::module_& module);
void bind_operation_queue(pybind11::module_& module);
void bind_micro_batch_sum(pybind11::module_& module);
void bind_all_reduce_subscriber(pybind11::module_& module);
void bind_launch_environment(pybind11::module_& module);
void bind_step_participant(pybind11::module_& module);
void bind_data_source(pybind11::module_& module);
void bind_several_sources(pybind11::module_& module);
void bind_batch_ring(pybind11::module_& module);
void bind_sample_ledger(pybind11::module_& module);
void bind_commit_log(pybind11::module_& module);
void bind_gradient_noise(pybind11::module_& module);
void bind_batch_rule(pybind11::module_& module);
void bind_batch_size_controller(pybind11::module_& module);
void bind_autoscaler_client(pybind11::module_& module);
void bind_straggler_watch(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);
void bind_elastic_policy(pybind11::module_& module);
void bind_policy_follower(pybind11::module_& module);
void bind_step_metrics(pybind11::module_& module);
void bind_session_values(pybind11::module_& module);
void bind_session(pybind11::module_& module);
void bind_diagnose(pybind11::module_& module);

}  // namespace ffdl::python
