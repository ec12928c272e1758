#pragma once

#include <memory>
#include <string>

#include "cli/job_folder.h"
#include "cli/run_arguments.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "launch/etcd_cluster.h"
#include "launch/supervisor.h"

namespace ffdl::cli {

// The store of a job that `ffdl run` runs, and its server if this process serves it.
struct RunStore {
  std::unique_ptr<StoreServer> server;        // null: another process serves the store
  std::unique_ptr<launch::EtcdCluster> etcd;  // this node's part; null: the job has no own etcd
  std::unique_ptr<Store> store;

  // Returns whether other nodes lose their store with this process.
  bool is_needed() const { return server != nullptr || (etcd != nullptr && etcd->runs_etcd()); }
};

// Returns the folder for the etcd of a job, in the job's folder.
std::string etcd_folder(const JobFolder& folder);

// Opens the store of a job, after it has begun to serve it if the plan says so. `options` receives
// the URL and the secret for the workers.
// `interface` names the network of this node's etcd.
// Blocks: while node 0 does not serve the store yet, at most a minute; and as EtcdCluster::join.
// Errors: those of StoreServer::start, open_store and EtcdCluster::join.
Result<RunStore> open_run_store(const RunPlan& plan, const JobFolder& folder,
                                const std::string& interface, launch::SupervisorOptions& options);

}  // namespace ffdl::cli
