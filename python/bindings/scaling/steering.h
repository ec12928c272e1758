#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>

#include "bindings/base/raised.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "ffdl/launch/environment.h"
#include "ffdl/scaling/elastic_policy.h"
#include "ffdl/store.h"

// Helpers shared by the bindings of metrics, policies and replacements.
namespace ffdl::python {

// A built-in policy in Python.
struct PolicyHandle {
  std::shared_ptr<const ElasticPolicy> policy;  // shared with its followers
};

// Returns a built-in policy, or one that calls an object with decide(observation). Keeps an
// exception of that call.
std::shared_ptr<const ElasticPolicy> policy_of(const pybind11::object& given,
                                               const std::shared_ptr<Raised>& raised);

double seconds_of(Duration time);
Duration duration_of(const char* name, double seconds);

// The store that was given, or the store of the job that `ffdl run` started this process for.
struct JobStore {
  JobStore(const char* doing, pybind11::object given_store, std::optional<std::string> given_job);

  Store& store() const { return *used; }

  pybind11::object given;
  std::unique_ptr<Store> own;
  Store* used = nullptr;
  std::string job;
};

}  // namespace ffdl::python
