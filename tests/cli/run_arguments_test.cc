#include "cli/run_arguments.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "support/status_matchers.h"

namespace ffdl::cli {
namespace {

using Words = std::vector<std::string>;

RunArguments base() { return {.program = {"train"}}; }

TEST(RunArguments, OneWorkerWithAStoreOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const RunPlan plan, plan_run(base()));
  EXPECT_EQ(plan.supervisor.min_workers, 1);
  EXPECT_EQ(plan.supervisor.max_workers, 1);
  EXPECT_EQ(plan.supervisor.command, (Words{"train"}));
  EXPECT_EQ(plan.supervisor.master_address, "127.0.0.1");
  EXPECT_EQ(plan.supervisor.master_port, 0);
  EXPECT_EQ(plan.serve, "127.0.0.1:0");
  EXPECT_TRUE(plan.is_private);
  EXPECT_TRUE(plan.warning.empty());
}

TEST(RunArguments, HowManyWorkers) {
  struct Case {
    const char *workers, *nnodes, *nproc;
    int rank, min, max, per_node;
  };
  for (const Case& one : {Case{"4", "", "", -1, 4, 4, 4}, Case{"2:8", "", "", -1, 2, 8, 8},
                          Case{"", "", "3", -1, 3, 3, 3}, Case{"", "1", "3", 0, 3, 3, 3},
                          Case{"", "1:4", "2", 3, 2, 8, 2}, Case{"", "2", "", 1, 2, 2, 1}}) {
    RunArguments arguments = base();
    arguments.workers = one.workers;
    arguments.nnodes = one.nnodes;
    arguments.nproc = one.nproc;
    arguments.node_rank = one.rank;
    arguments.job = "job";
    arguments.rdzv_endpoint = "node0:1234";
    ASSERT_OK_AND_ASSIGN(const RunPlan plan, plan_run(arguments));
    EXPECT_EQ(plan.supervisor.min_workers, one.min) << one.workers << one.nnodes;
    EXPECT_EQ(plan.supervisor.max_workers, one.max) << one.workers << one.nnodes;
    EXPECT_EQ(plan.supervisor.workers_per_node, one.per_node) << one.workers << one.nnodes;
  }
}

TEST(RunArguments, NodeZeroServesTheStoreAtTheEndpoint) {
  RunArguments arguments = base();
  arguments.nnodes = "2";
  arguments.job = "job";
  arguments.rdzv_endpoint = "node0";
  arguments.node_rank = 0;
  ASSERT_OK_AND_ASSIGN(const RunPlan first, plan_run(arguments));
  EXPECT_EQ(first.serve, "node0:29400");
  EXPECT_FALSE(first.is_private);
  EXPECT_NE(first.warning.find("does not survive the loss"), std::string::npos);
  arguments.node_rank = 1;
  ASSERT_OK_AND_ASSIGN(const RunPlan second, plan_run(arguments));
  EXPECT_EQ(second.serve, "");
  EXPECT_EQ(second.supervisor.store_url, "tcp://node0:29400");
  EXPECT_EQ(second.supervisor.master_address, "node0");
  EXPECT_EQ(second.supervisor.master_port, 29401);
  EXPECT_EQ(first.supervisor.master_port, 29401);

  arguments.rdzv_endpoint.clear();
  arguments.store = "etcd://node7:2379";
  arguments.master_addr = "node9";
  ASSERT_OK_AND_ASSIGN(const RunPlan etcd, plan_run(arguments));
  EXPECT_EQ(etcd.supervisor.store_url, "etcd://node7:2379");
  EXPECT_TRUE(etcd.warning.empty());
  EXPECT_EQ(etcd.supervisor.master_address, "node9");
  EXPECT_EQ(etcd.supervisor.master_port, 29500);
}

TEST(RunArguments, WhatRunsTheProgram) {
  RunArguments arguments = base();
  arguments.program = {"a/train.py", "--lr", "3"};
  EXPECT_EQ(plan_run(arguments)->supervisor.command,
            (Words{"python3", "-u", "a/train.py", "--lr", "3"}));
  arguments.no_python = true;
  EXPECT_EQ(plan_run(arguments)->supervisor.command, (Words{"a/train.py", "--lr", "3"}));
  arguments.no_python = false;
  arguments.is_module = true;
  arguments.python = "venv/bin/python";
  arguments.program = {"package.train", "x"};
  EXPECT_EQ(plan_run(arguments)->supervisor.command,
            (Words{"venv/bin/python", "-u", "-m", "package.train", "x"}));
}

TEST(RunArguments, ContradictionsAreRefused) {
  struct Case {
    void (*change)(RunArguments&);
    const char* text;
  };
  const Case cases[] = {
      {[](RunArguments& a) { a.program.clear(); }, "there is no program"},
      {[](RunArguments& a) { a.workers = "0"; }, "--workers is '0'"},
      {[](RunArguments& a) { a.workers = "3:2"; }, "--workers is '3:2'"},
      {[](RunArguments& a) { a.workers = "2:"; }, "--workers is '2:'"},
      {[](RunArguments& a) { a.workers = a.nproc = "2"; }, "--workers and --nnodes"},
      {[](RunArguments& a) { a.policy = "p", a.autoscale = true, a.store = "file:///s"; },
       "--policy and --autoscale"},
      {[](RunArguments& a) { a.policy_log = "p"; }, "--policy-log is for --policy"},
      {[](RunArguments& a) { a.nproc = "gpu"; }, "--nproc-per-node is 'gpu'"},
      {[](RunArguments& a) { a.node_rank = 1; }, "--node-rank is 1 of 1"},
      {[](RunArguments& a) { a.nnodes = "2"; }, "no --node-rank"},
      {[](RunArguments& a) { a.nnodes = "2", a.node_rank = 0; }, "no name of the job"},
      {[](RunArguments& a) { a.nnodes = "2", a.node_rank = 0, a.job = "j"; }, "no place to meet"},
      {[](RunArguments& a) { a.nnodes = "2", a.standalone = true; }, "--standalone with several"},
      {[](RunArguments& a) { a.standalone = true, a.rdzv_endpoint = "x"; }, "a store of its own"},
      {[](RunArguments& a) { a.store = "file:///a", a.rdzv_endpoint = "x"; }, "one way to name"},
      {[](RunArguments& a) { a.store = "mem://"; }, "other processes do not see"},
      {[](RunArguments& a) { a.rdzv_endpoint = "x:y"; }, "--rdzv-endpoint is 'x:y'"},
      {[](RunArguments& a) { a.rdzv_backend = "etcd-v2"; }, "--store etcd://"},
      {[](RunArguments& a) { a.is_module = a.no_python = true; }, "--module and --no-python"},
  };
  for (const Case& one : cases) {
    RunArguments arguments = base();
    one.change(arguments);
    EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, one.text);
  }
}

TEST(OptionsEnd, IsWhereTheProgramBegins) {
  CLI::App run;
  std::string workers;
  bool module = false;
  run.add_option("--workers", workers);
  run.add_flag("-m,--module", module);
  const auto end = [&](std::vector<const char*> words) {
    words.insert(words.begin(), {"ffdl", "run"});
    return options_end(run, static_cast<int>(words.size()), words.data()) - 2;
  };
  EXPECT_EQ(end({}), 0);
  EXPECT_EQ(end({"train.py", "--workers", "3"}), 0);
  EXPECT_EQ(end({"--workers", "3", "train.py", "-m"}), 2);
  EXPECT_EQ(end({"--workers=3", "train.py"}), 1);
  EXPECT_EQ(end({"-m", "train", "--workers", "3"}), 1);
  EXPECT_EQ(end({"-m", "--", "--odd"}), 1);
  EXPECT_EQ(end({"--workers", "3"}), 2);
  EXPECT_EQ(end({"--workers"}), 1);
}

}  // namespace
}  // namespace ffdl::cli
