#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/elastic_policy.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// Makes a running job follow its policy: what `ffdl run --policy` is made of. docs/policies.md
namespace ffdl {

struct PolicyFollowerOptions {
  std::string job = "job";
  SteadyOptions steady{};  // the bounds of the job's --workers MIN:MAX hold as well
  // Decisions are no closer; of measurements in between the newest counts.
  Duration interval = std::chrono::seconds(1);
  std::string log_file{};  // every decision is added to it as a line of JSON; empty: to none
  std::function<WallTime()> clock = [] { return WallTime(std::chrono::system_clock::now()); };
};

struct PolicyFollowerStats {
  uint64_t decisions = 0;
  uint64_t changes = 0;  // that the job was asked for
};

// Reads what the StepMeter (step_meter.h) of a job tells, asks the policy, and has the job scaled
// as scale_job() does (supervisor.h). While a change is under way nothing is decided. One job
// should have one follower; who is scaled by `ffdl autoscale` should have none.
// Threads: one task of the runtime, on which the policy is called.
// Owns: nothing: all references must outlive it.
// Blocks: the destructor until the task's present call to the store or the policy returns.
// Errors: of start(): kInvalidArgument (the options), kUnavailable (the log cannot be written),
//         and those of Store. Later ones are logged, once each.
class FFDL_API PolicyFollower {
 public:
  static Result<std::unique_ptr<PolicyFollower>> start(Store& store, Runtime& runtime,
                                                       const ElasticPolicy& policy,
                                                       const PolicyFollowerOptions& options);
  ~PolicyFollower();
  PolicyFollower(const PolicyFollower&) = delete;
  PolicyFollower& operator=(const PolicyFollower&) = delete;

  // Threads: any.
  PolicyFollowerStats stats() const;

 private:
  class Impl;
  explicit PolicyFollower(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// How many of the workers that nodes offer in this store (offer_workers(), autoscaler.h) neither
// this job uses nor those that are autoscaled; below 0: more are used. None: none are offered.
// Errors: those of Store.
FFDL_API Result<std::optional<int>> count_idle_workers(Store& store, std::string_view job);

}  // namespace ffdl
