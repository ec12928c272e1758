#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/cluster/job_planner.h"
#include "ffdl/cluster/step_measurement.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// Shares the workers of one cluster among several jobs, which change size while they train. `ffdl
// autoscale` decides (docs/guide/launch.md). All records are in the store that the jobs have in
// common.
namespace ffdl {

// Offers room for this many workers on this node; 0: none. The autoscaler shares out the offers of
// all nodes together. Errors: kInvalidArgument (no name, below 0), and those of Store.
FFDL_API Status offer_workers(Store& store, std::string_view node, int workers);

// A job's place in the queue, and later its share of the workers. Both end with this object, or
// with its process. If the connection to the store is lost for a while, the job keeps its place in
// the order of arrival.
// Threads: one at a time. A task of the runtime renews a lease.
// Owns: its record. `store` and `runtime` must outlive it.
// Blocks: wait_until_admitted() until its deadline, the destructor until the task's present call to
//         the store returns.
class FFDL_API JobTicket {
 public:
  // Enters a job into the queue. Of the request counts its name, its sizes (whose values are speeds
  // relative to one worker), and one node in `only_nodes`: the node, by its offered name, on which
  // all workers are started, as `ffdl run --autoscale` does. Without it the autoscaler chooses the
  // nodes. Errors: kInvalidArgument (no size, or an invalid one; several nodes), kConflict (a job
  // of this name has a ticket), and those of Store.
  static Result<std::unique_ptr<JobTicket>> enter(Store& store, Runtime& runtime,
                                                  const JobRequest& request);
  ~JobTicket();
  JobTicket(const JobTicket&) = delete;
  JobTicket& operator=(const JobTicket&) = delete;

  // Waits for admission and returns the allocation to start with. Later the autoscaler scales the
  // job by scale_job() (running_job.h). Errors: kTimeout (still waiting), kExhausted (rejected; the
  // message has the reason), and those of Store.
  Result<JobAllocation> wait_until_admitted(Time deadline);

 private:
  class Impl;
  explicit JobTicket(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The autoscaler's decisions. Of each allocation it publishes the name, the workers, the batch, the
// nodes (fewer workers than `workers` if nodes were taken away), `is_dropped` and the reason.
struct Allocations {
  int workers = 0;                    // offered by the nodes
  std::vector<NodeWorkers> nodes{};   // the offers, by name
  std::vector<JobAllocation> jobs{};  // in order of arrival
};

// Reads the decisions and changes nothing. Errors: those of Store.
FFDL_API Result<Allocations> read_allocations(Store& store);

// Publishes the speeds of a job at each size and batch that it has had. StepMetrics does so
// (step_metrics.h), and the autoscaler learns the values of sizes from it. Of each measurement the
// workers, the batch, the steps and their time are published. The record is under a lease of the
// job, as a later job of this name may be another program.
// Errors: kInvalidArgument (no name), and those of Store.
FFDL_API Status publish_speeds(Store& store, std::string_view job,
                               std::span<const StepMeasurement> speeds, LeaseId lease);
// Reads the speeds of a job. Errors: kNotFound (none were published, or the job is gone), kCorrupt,
// and those of Store.
FFDL_API Result<std::vector<StepMeasurement>> read_speeds(Store& store, std::string_view job);

// Reads the batch size that the autoscaler wants for a job during its training. It never delays a
// step: a task of the runtime reads the store.
//   auto link = AutoscalerClient::open(*store, system_runtime(), job);
//   ... after each step:
//   const JobAllocation wanted = (*link)->wanted();
//   if (wanted.batch > 0) batch->want(wanted.batch, wanted.workers);  // batch_size.h
// Threads: wanted() from any. A task of the runtime.
// Owns: nothing: `store` and `runtime` must outlive it.
// Blocks: the destructor, until the task's present call to the store returns.
class FFDL_API AutoscalerClient {
 public:
  // Opens a client of the store of `ffdl autoscale`. It reads about once per `interval`. Errors:
  // kInvalidArgument (no name, an interval of 0).
  static Result<std::unique_ptr<AutoscalerClient>> open(
      Store& store, Runtime& runtime, std::string_view job,
      Duration interval = std::chrono::seconds(1));
  ~AutoscalerClient();
  AutoscalerClient(const AutoscalerClient&) = delete;
  AutoscalerClient& operator=(const AutoscalerClient&) = delete;

  // Returns the autoscaler's last decision. 0 workers: none yet, or the job waits. The batch is for
  // this number of workers, 0 if the autoscaler wants none.
  JobAllocation wanted() const;

 private:
  class Impl;
  explicit AutoscalerClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
