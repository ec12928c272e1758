#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/job_planner.h"
#include "ffdl/job_scheduler.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// Several jobs share the workers of one cluster, and change size while they train: what
// `ffdl autoscale`, `ffdl offer` and `ffdl run --autoscale` are made of. All that is known lies in
// the store that the jobs have in common. docs/launch.md
namespace ffdl {

// From now on this node has room for so many workers; 0: for none. All nodes together are what the
// autoscaler shares out. Errors: kInvalidArgument (no name, below 0), and those of Store.
FFDL_API Status offer_workers(Store& store, std::string_view node, int workers);

// What a job can use.
struct JobDemand {
  std::string job{};
  // As the planner takes them: the value of a size is its speed relative to one worker.
  std::vector<SizeOption> sizes{};
  // The node, by the name that it offers, where all of its workers are started, as those of
  // `ffdl run --autoscale` are; empty: wherever the autoscaler says (JobAllocation::nodes).
  std::string node{};
};

struct AdmittedJob {
  int workers = 0;
  int64_t batch = 0;
};

// A job's place in the queue, and its share of the workers afterwards: both end with this object,
// or with the process that has it. Who loses the connection to the store for a while keeps its
// place in the order of arrival.
// Threads: one at a time. A task of the runtime renews a lease.
// Owns: its record. `store` and `runtime` must outlive it.
// Blocks: wait_until_admitted() until its deadline, the destructor until the task's present call to
//         the store returns.
class FFDL_API JobTicket {
 public:
  // Errors: kInvalidArgument (no size, or one that makes no sense), kConflict (a job of this name
  // has one), and those of Store.
  static Result<std::unique_ptr<JobTicket>> enter(Store& store, Runtime& runtime,
                                                  const JobDemand& demand);
  ~JobTicket();
  JobTicket(const JobTicket&) = delete;
  JobTicket& operator=(const JobTicket&) = delete;

  // With what the job is to begin. Afterwards the autoscaler scales it as scale_job() does
  // (supervisor.h). Errors: kTimeout (it waits still), kExhausted (it was turned away; the message
  // says why), and those of Store.
  Result<AdmittedJob> wait_until_admitted(Time deadline);

 private:
  class Impl;
  explicit JobTicket(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

struct AutoscalerOptions {
  WhenFull when_full = WhenFull::kQueue;
  Duration interval = std::chrono::seconds(60);  // between decisions while nothing happens
  // What a change of size costs a job, and within which time it must have paid for itself
  // (discount_switches).
  Duration switch_cost = std::chrono::seconds(1);
  Duration horizon = std::chrono::seconds(300);
};

// Decides whenever a job comes or ends, or nodes change, and each interval, by
// schedule_placed_jobs(); and publishes what it decided: running jobs follow without a stop.
// Workers are given to a job once those who had them, on the same node, have ended. Where a job
// runs it stays: it grows by workers beside those that it has, and shrinks by giving some of them
// back. It keeps nothing: whoever calls this after it was killed goes on from what the store says,
// and until then the jobs train on as they are. Of two at a time one waits for the other's end.
// Threads: the caller's alone.
// Blocks: until `stop`, up to about a second longer.
// Errors: kCancelled (it was asked to stop), kInvalidArgument (the options). What the store cannot
// do is logged, and tried again.
FFDL_API Status run_autoscaler(Store& store, Runtime& runtime, const AutoscalerOptions& options,
                               const StopToken& stop);

// Workers of one node.
struct NodeAllocation {
  std::string node{};  // by the name that it offers
  int workers = 0;

  bool operator==(const NodeAllocation&) const = default;
};

// What the autoscaler has decided for one job.
struct JobAllocation {
  std::string job{};
  int workers = 0;  // 0: it waits, or was dropped
  int64_t batch = 0;
  bool is_dropped = false;
  std::string reason{};
  // Where its workers are to be; fewer than `workers` where nodes were taken away.
  std::vector<NodeAllocation> nodes{};

  bool operator==(const JobAllocation&) const = default;
};

struct Allocations {
  int workers = 0;                      // that the nodes offer
  std::vector<NodeAllocation> nodes{};  // the offers, by name
  std::vector<JobAllocation> jobs{};    // in order of arrival
};

// Only reads. Errors: those of Store.
FFDL_API Result<Allocations> read_allocations(Store& store);

}  // namespace ffdl
