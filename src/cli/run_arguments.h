#pragma once

#include <CLI/App.hpp>
#include <map>
#include <string>
#include <vector>

#include "ffdl/cluster/job_planner.h"
#include "launch/supervisor.h"

namespace ffdl::cli {

// The arguments of `ffdl run`.
struct RunArguments {
  std::string workers{};                           // N or MIN:MAX
  std::string nnodes{};                            // N or MIN:MAX
  std::string nproc{};                             // a number, cpu, gpu or auto
  int node_rank = -1;                              // -1: not given
  std::map<std::string, std::string> variables{};  // those of other launchers
  int gpus = 0;                                    // of this host
  bool is_endpoint_host = false;                   // the host of rdzv_endpoint is this one
  int start = 0;                                   // workers at first; 0: MAX
  std::string job{};
  std::string store{};
  std::string store_secret{};
  std::string rdzv_endpoint{};
  std::string interface{};
  bool tls = false;
  std::string rdzv_backend{};
  bool standalone = false;
  std::string master_addr{};
  int master_port = 0;
  std::optional<int> max_restarts{};  // empty: the default, and none before any worker has joined
  double grace_s = 30;
  bool private_files = false;
  std::string log_dir{};
  std::string ledger_log{};
  bool again = false;
  std::string on_lost_state = "restart";
  bool autoscale = false;
  std::vector<double> scaling{};  // values of 1, 2, ... workers; empty: not given
  std::string profile{};          // file with the scaling instead; empty: none
  std::string on_node{};          // the name that the node offers; empty: not given
  std::string policy{};           // a file; empty: the job follows none
  std::string policy_log{};
  std::string python = "python3";
  bool is_module = false;
  bool no_python = false;
  std::vector<std::string> program{};
};

// The settings with which `ffdl run` runs a job.
struct RunPlan {
  // It has the job's name if one was given. It has the store's URL if another process serves the
  // store. Its master_port is 0 if any free port will do.
  launch::SupervisorOptions supervisor{};
  std::string serve{};         // address of the store to be served; empty: none
  int etcd_members = 0;        // of the etcd that is started for the job; 0: none is
  bool is_private = false;     // the store is for this host alone, found by its folder
  bool shares_served = false;  // node 0 serves the store, and this is another node
  // No rank is given, and this is node 0 unless another process of this host is.
  bool is_first_here = false;
  std::string warning{};
  std::vector<SizeOption> sizes{};  // sizes for `ffdl autoscale`; empty: it takes no part
  std::string on_node{};            // the node whose room it shares; empty: all nodes
};

// Adds the program to a command: the first word that is no option, or the one after "--", with all
// words after it.
void add_program(CLI::App& command, std::vector<std::string>& program);

// Returns the host in an endpoint, without port and brackets.
std::string endpoint_host(const std::string& endpoint);

// Errors: kInvalidArgument.
Result<RunPlan> plan_run(const RunArguments& arguments);

}  // namespace ffdl::cli
