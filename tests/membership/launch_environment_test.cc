#include "membership/launch_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/status_matchers.h"

namespace ffdl::membership {
namespace {

using Variables = std::map<std::string, std::string>;

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "1"},
                             {"ROLE_RANK", "5"},
                             {"ROLE_WORLD_SIZE", "8"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_MAX_RESTARTS", "3"},
                             {"TORCHELASTIC_RUN_ID", "run-7"}};

TEST(LaunchEnvironment, NoLauncher) {
  EXPECT_EQ(*parse_launch_environment({}), std::nullopt);
  EXPECT_EQ(*parse_launch_environment({{"LOCAL_RANK", "0"}, {"MASTER_ADDR", "x"}}), std::nullopt);
}

TEST(LaunchEnvironment, Torchrun) {
  ASSERT_OK_AND_ASSIGN(const auto read, parse_launch_environment(kTorchrun));
  EXPECT_EQ(read, (LaunchEnvironment{5, 8, 1, 4, 1, 5, 8, 2, 3, "node0", 29500, "run-7"}));
}

TEST(LaunchEnvironment, WhatIsSetIsWhatIsRead) {
  ASSERT_OK_AND_ASSIGN(const auto read, parse_launch_environment(kTorchrun));
  Variables again;
  for (const std::string& variable : launch_variables(*read)) {
    const size_t equals = variable.find('=');
    again[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  EXPECT_EQ(again, kTorchrun);
}

TEST(LaunchEnvironment, OtherLaunchers) {
  ASSERT_OK_AND_ASSIGN(const auto mpi,
                       parse_launch_environment({{"OMPI_COMM_WORLD_RANK", "3"},
                                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                 {"SLURM_PROCID", "0"},
                                                 {"SLURM_NTASKS", "1"}}));
  EXPECT_EQ(mpi->rank, 3);
  EXPECT_EQ(mpi->world_size, 4);
  EXPECT_EQ(mpi->local_rank, 1);
  ASSERT_OK_AND_ASSIGN(const auto slurm, parse_launch_environment({{"SLURM_PROCID", "2"},
                                                                   {"SLURM_NTASKS", "3"},
                                                                   {"SLURM_LOCALID", "2"},
                                                                   {"SLURM_NODEID", "1"},
                                                                   {"SLURM_JOB_ID", "99"}}));
  EXPECT_EQ(slurm->rank, 2);
  EXPECT_EQ(slurm->group_rank, 1);
  EXPECT_EQ(slurm->local_world_size, 0);
  EXPECT_EQ(slurm->run_id, "99");
  ASSERT_OK_AND_ASSIGN(const auto pmi,
                       parse_launch_environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  EXPECT_EQ(pmi->world_size, 2);
}

TEST(LaunchEnvironment, Contradictions) {
  const struct {
    const char* name;
    const char* value;  // null: not set
    const char* says;
  } cases[] = {
      {"WORLD_SIZE", nullptr, "WORLD_SIZE is not set"},
      {"WORLD_SIZE", "many", "WORLD_SIZE='many'"},
      {"WORLD_SIZE", "5", "RANK=5 and WORLD_SIZE=5"},
      {"WORLD_SIZE", "0", "WORLD_SIZE=0"},
      {"WORLD_SIZE", "257", "<= 256"},
      {"RANK", "-1", "RANK='-1'"},
      {"RANK", "1 ", "RANK='1 '"},
      {"LOCAL_RANK", "4", "rank 4 of 4 on this host"},
      {"MASTER_PORT", "", "MASTER_PORT=''"},
  };
  for (const auto& test : cases) {
    Variables variables = kTorchrun;
    variables.erase(test.name);
    if (test.value != nullptr) variables[test.name] = test.value;
    EXPECT_FAILS(parse_launch_environment(variables), StatusCode::kInvalidArgument, test.says);
  }
}

TEST(LaunchEnvironment, AWorldOfFixedSize) {
  LaunchEnvironment environment;
  environment.rank = 1;
  environment.world_size = 3;
  environment.restart_count = 2;
  const World world = world_of(environment);
  EXPECT_EQ(world.generation, 3U);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.members,
            (std::vector<Member>{{"worker-0", 3}, {"worker-1", 3}, {"worker-2", 3}}));
}

// Each value differs from its default.
const JobEnvironment kToldJob = {"tcp:///a/b", "secret", "digits", "worker-3",         2, 8,
                                 "worker-1",   "/logs",  OnLostState::kFail};

Variables variables_of(const JobEnvironment& job) {
  Variables variables;
  for (const std::string& variable : job_variables(job)) {
    const size_t equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return variables;
}

TEST(JobEnvironment, WhatIsSetIsWhatIsRead) {
  ASSERT_OK_AND_ASSIGN(const auto read, parse_job_environment(variables_of(kToldJob)));
  EXPECT_EQ(read, kToldJob);
}

// The process environment is read once, so this needs a process of its own.
TEST(JobEnvironmentDeathTest, WhatALauncherSetsReachesAWorkersMembership) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_with_whether_it_matches = [] {
    for (const auto& [name, value] : variables_of(kToldJob)) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    const auto read = job_environment();
    if (!read.ok() || *read != kToldJob) std::exit(1);
    const MembershipOptions options = membership_options(**read);
    const bool is_all = options.job == "digits" && options.min_workers == 2 &&
                        options.max_workers == 8 && options.takes_over_from == "worker-1" &&
                        options.on_lost_state == OnLostState::kFail;
    std::exit(is_all ? 0 : 2);
  };
  EXPECT_EXIT(exit_with_whether_it_matches(), ::testing::ExitedWithCode(0), "");
}

TEST(JobEnvironment, SomeMayBeMissing) {
  EXPECT_EQ(*parse_job_environment({{"FFDL_JOB", "digits"}}), std::nullopt);
  ASSERT_OK_AND_ASSIGN(const auto read,
                       parse_job_environment({{"FFDL_STORE", "mem://"}, {"FFDL_WORKER_ID", "a"}}));
  EXPECT_EQ(read, (JobEnvironment{.store_url = "mem://", .worker_id = "a"}));
  EXPECT_FAILS(parse_job_environment({{"FFDL_STORE", "mem://"}}), StatusCode::kInvalidArgument,
               "FFDL_WORKER_ID");
  EXPECT_FAILS(
      parse_job_environment(
          {{"FFDL_STORE", "mem://"}, {"FFDL_WORKER_ID", "a"}, {"FFDL_MIN_WORKERS", "few"}}),
      StatusCode::kInvalidArgument, "FFDL_MIN_WORKERS='few'");
  EXPECT_FAILS(
      parse_job_environment(
          {{"FFDL_STORE", "mem://"}, {"FFDL_WORKER_ID", "a"}, {"FFDL_ON_LOST_STATE", "wait"}}),
      StatusCode::kInvalidArgument, "use restart or fail");
}

}  // namespace
}  // namespace ffdl::membership
