#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "ffdl/elastic_policy.h"
#include "ffdl/launch_environment.h"
#include "ffdl/store.h"
#include "raised.h"
#include "status.h"
#include "waiting.h"

// What the bindings of meters, policies and replacements have in common.
namespace ffdl::python {

// A policy as Python holds it: a built-in one.
struct PolicyHandle {
  std::shared_ptr<const ElasticPolicy> policy;  // shared with those that follow it
};

// A built-in policy, or any object with decide(observation, now_s); what that raises is kept.
std::shared_ptr<const ElasticPolicy> policy_of(const pybind11::object& given,
                                               const std::shared_ptr<Raised>& raised);

double seconds_of(Duration time);
Duration duration_of(const char* name, double seconds);

// The store that was given, or that of the job that `ffdl run` started this process for.
struct JobStore {
  JobStore(const char* doing, pybind11::object given_store, std::optional<std::string> given_job);

  Store& store() const { return *used; }

  pybind11::object given;
  std::unique_ptr<Store> own;
  Store* used = nullptr;
  std::string job;
};

}  // namespace ffdl::python
