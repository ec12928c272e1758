#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ffdl/job_planner.h"
#include "ffdl/supervisor.h"

namespace ffdl::cli {

// What stands on the command line of `ffdl run`.
struct RunArguments {
  std::string workers{};  // N or MIN:MAX
  std::string nnodes{};   // the same
  std::string nproc{};    // a number, or cpu
  int node_rank = -1;     // -1: not given
  std::string job{};
  std::string store{};
  std::string store_secret{};
  std::string rdzv_endpoint{};
  std::string rdzv_backend{};
  bool standalone = false;
  std::string master_addr{};
  int master_port = 0;
  int max_restarts = 3;
  double grace_s = 30;
  std::string log_dir{};
  std::string ledger_log{};
  bool autoscale = false;
  std::vector<double> scaling{};  // of 1, 2, ... workers; empty: not given
  std::string profile{};          // file that says it instead; empty: none
  std::string on_node{};          // by the name that it offers; empty: not said
  std::string policy{};           // a file; empty: it follows none
  std::string policy_log{};
  std::string python = "python3";
  bool is_module = false;
  bool no_python = false;
  std::vector<std::string> program{};
};

// What `ffdl run` does.
struct RunPlan {
  // The job's name where one was given; the store's URL where it is another's, not served here;
  // master_port is 0 where any free one will do.
  SupervisorOptions supervisor{};
  std::string serve{};      // address of the store to be served; empty: none
  bool is_private = false;  // the store is for this host alone, found by its folder
  std::string warning{};
  std::vector<SizeOption>
      sizes{};            // what `ffdl autoscale` may give it; empty: it does not take part
  std::string on_node{};  // whose room it shares; empty: that of all nodes
};

// Where the options of `ffdl run` end and the program begins (or "--" before it): an index of argv,
// argc where there is no program. What follows is the program's own.
int options_end(const CLI::App& run, int argc, const char* const* argv);

// Errors: kInvalidArgument.
Result<RunPlan> plan_run(const RunArguments& arguments);

}  // namespace ffdl::cli
