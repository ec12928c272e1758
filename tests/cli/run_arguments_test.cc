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

TEST(RunArguments, WhatBecomesOfAJobThatIsDoneOrLost) {
  RunArguments arguments = base();
  EXPECT_EQ(plan_run(arguments)->supervisor.on_lost_state, OnLostState::kRestart);
  arguments.on_lost_state = "fail";
  EXPECT_EQ(plan_run(arguments)->supervisor.on_lost_state, OnLostState::kFail);
  arguments.again = true;
  EXPECT_OK(plan_run(arguments));
  arguments.nnodes = "2";
  arguments.node_rank = 1;
  arguments.job = "job";
  arguments.rdzv_endpoint = "node0";
  EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, "--again on node 1");
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

TEST(RunArguments, HowManyToBeginWith) {
  RunArguments arguments = base();
  arguments.workers = "2:4";
  EXPECT_EQ(plan_run(arguments)->supervisor.first_workers, 0);
  arguments.start = 3;
  EXPECT_EQ(plan_run(arguments)->supervisor.first_workers, 3);
  for (const int wrong : {1, 5}) {
    arguments.start = wrong;
    EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, "has 2 to 4 workers");
  }
  arguments.start = 3;
  arguments.autoscale = true;
  EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, "leave one of them out");
}

TEST(RunArguments, AnotherLaunchersVariablesHaveTheRank) {
  RunArguments arguments = base();
  arguments.nnodes = "3";
  arguments.nproc = "2";
  arguments.job = "job";
  arguments.rdzv_endpoint = "node0";
  arguments.variables = {{"SLURM_NODEID", "2"}};
  EXPECT_EQ(plan_run(arguments)->supervisor.node, 2);
  arguments.node_rank = 1;  // what is given comes first
  EXPECT_EQ(plan_run(arguments)->supervisor.node, 1);
  RunArguments alone = base();
  alone.variables = {{"SLURM_NODEID", "2"}};
  EXPECT_EQ(plan_run(alone)->supervisor.node, 0);
}

TEST(RunArguments, WithoutARankTheStoreDecides) {
  RunArguments arguments = base();
  arguments.nnodes = "3";
  arguments.nproc = "2";
  arguments.job = "job";
  arguments.rdzv_endpoint = "node0:1234";
  ASSERT_OK_AND_ASSIGN(const RunPlan other, plan_run(arguments));
  EXPECT_TRUE(other.supervisor.takes_free_node);
  EXPECT_EQ(other.supervisor.node, 1) << "node 0 serves the store";
  EXPECT_EQ(other.supervisor.store_url, "tcp://node0:1234");
  EXPECT_EQ(other.supervisor.master_address, "node0");
  arguments.is_endpoint_host = true;
  ASSERT_OK_AND_ASSIGN(const RunPlan first, plan_run(arguments));
  EXPECT_TRUE(first.is_first_here);
  EXPECT_FALSE(first.supervisor.takes_free_node);
  EXPECT_EQ(first.serve, "node0:1234");
  arguments.again = true;
  EXPECT_OK(plan_run(arguments));
  arguments.is_endpoint_host = false;
  EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, "give --again and --node-rank 0");
  arguments.again = false;
  arguments.rdzv_endpoint.clear();
  arguments.store = "etcd://node7:2379";
  ASSERT_OK_AND_ASSIGN(const RunPlan any, plan_run(arguments));
  EXPECT_TRUE(any.supervisor.takes_free_node);
  EXPECT_EQ(any.supervisor.node, 0);
  arguments.node_rank = 2;
  EXPECT_FALSE(plan_run(arguments)->supervisor.takes_free_node);
  EXPECT_EQ(endpoint_host("[fd00::1]:29400"), "fd00::1");
  EXPECT_EQ(endpoint_host("[fd00::1]"), "fd00::1");
  EXPECT_EQ(endpoint_host("node0"), "node0");
}

TEST(RunArguments, GpusAsSlots) {
  RunArguments arguments = base();
  arguments.gpus = 4;
  for (const char* const nproc : {"gpu", "auto"}) {
    arguments.nproc = nproc;
    EXPECT_EQ(plan_run(arguments)->supervisor.workers_per_node, 4);
  }
  arguments.gpus = 0;
  ASSERT_OK_AND_ASSIGN(const RunPlan plan, plan_run(arguments));
  arguments.nproc = "cpu";
  EXPECT_EQ(plan.supervisor.workers_per_node, plan_run(arguments)->supervisor.workers_per_node);
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
      {[](RunArguments& a) { a.nproc = "gpu"; }, "--nproc-per-node is 'gpu', and this host has no"},
      {[](RunArguments& a) { a.nproc = "tpu"; }, "--nproc-per-node is 'tpu'"},
      {[](RunArguments& a) { a.nnodes = "2", a.variables = {{"SLURM_NODEID", "2"}}; },
       "SLURM_NODEID is 2, but the job has 2 nodes"},
      {[](RunArguments& a) { a.nnodes = "2", a.variables = {{"PMI_RANK", "x"}}; }, "PMI_RANK='x'"},
      {[](RunArguments& a) { a.node_rank = 1; }, "--node-rank is 1, but the job has 1"},
      {[](RunArguments& a) { a.nnodes = "2"; }, "no name of the job"},
      {[](RunArguments& a) { a.nnodes = "2", a.job = "j"; }, "no common store"},
      {[](RunArguments& a) { a.nnodes = "2", a.standalone = true; }, "--standalone with several"},
      {[](RunArguments& a) { a.standalone = true, a.rdzv_endpoint = "x"; }, "has its own store"},
      {[](RunArguments& a) { a.store = "file:///a", a.rdzv_endpoint = "x"; }, "one way to name"},
      {[](RunArguments& a) { a.store = "mem://"; }, "other processes cannot open"},
      {[](RunArguments& a) { a.rdzv_endpoint = "x:y"; }, "--rdzv-endpoint is 'x:y'"},
      {[](RunArguments& a) { a.rdzv_backend = "etcd-v2"; }, "--store etcd"},
      {[](RunArguments& a) { a.is_module = a.no_python = true; }, "--module and --no-python"},
  };
  for (const Case& one : cases) {
    RunArguments arguments = base();
    one.change(arguments);
    EXPECT_FAILS(plan_run(arguments), StatusCode::kInvalidArgument, one.text);
  }
}

TEST(Program, IsAllFromTheFirstWordThatIsNoOption) {
  struct Case {
    std::vector<std::string> words;
    std::vector<std::string> program;
    std::string workers = "";
  };
  const Case cases[] = {
      {{}, {}},
      {{"train.py", "--workers", "3"}, {"train.py", "--workers", "3"}},
      {{"--workers", "3", "train.py", "-m"}, {"train.py", "-m"}, "3"},
      {{"--workers=3", "train.py", "--help"}, {"train.py", "--help"}, "3"},
      {{"-m", "train", "--workers", "3", "--version"}, {"train", "--workers", "3", "--version"}},
      {{"-m", "--", "--odd"}, {"--odd"}},
      {{"--", "train.py", "--", "-5"}, {"train.py", "--", "-5"}},
      {{"train.py", "[1,2]", "[]", "", "-"}, {"train.py", "[1,2]", "[]", "", "-"}},
      {{"status", "run", "--job"}, {"status", "run", "--job"}},
      {{"--workers", "3"}, {}, "3"},
  };
  for (const Case& one : cases) {
    CLI::App app("", "ffdl");
    app.set_version_flag("--version", "1");
    app.require_subcommand(1);
    app.add_subcommand("status");
    CLI::App* const run = app.add_subcommand("run");
    std::string workers;
    std::vector<std::string> program;
    run->add_option("--workers", workers);
    run->add_flag("-m,--module");
    add_program(*run, program);
    std::vector<std::string> last_first(one.words.rbegin(), one.words.rend());
    last_first.push_back("run");
    ASSERT_NO_THROW(app.parse(last_first)) << ::testing::PrintToString(one.words);
    EXPECT_EQ(program, one.program);
    EXPECT_EQ(workers, one.workers);
  }
}

TEST(Program, WrongOptionsBeforeItAreRefused) {
  for (const std::vector<std::string>& last_first :
       {std::vector<std::string>{"train.py", "2", "--wokers"}, {"--workers"}}) {
    CLI::App run;
    std::string workers;
    std::vector<std::string> program;
    run.add_option("--workers", workers);
    add_program(run, program);
    std::vector<std::string> words = last_first;
    EXPECT_THROW(run.parse(words), CLI::ParseError);
  }
}

}  // namespace
}  // namespace ffdl::cli
