#include "launch/node_rank.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

using Variables = std::map<std::string, std::string>;

struct RankCase {
  Variables variables;
  int rank;
  std::string variable;
};

TEST(FindNodeRank, EachLauncherHasItsVariable) {
  const RankCase cases[] = {
      {{{"PET_NODE_RANK", "3"}}, 3, "PET_NODE_RANK"},
      {{{"SLURM_NODEID", "1"}, {"SLURM_NTASKS_PER_NODE", "1"}}, 1, "SLURM_NODEID"},
      {{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
       2,
       "OMPI_COMM_WORLD_RANK"},
      {{{"PMI_RANK", "7"}}, 7, "PMI_RANK"},
      {{{"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}, 0, "GROUP_RANK"},
      {{{"JOB_COMPLETION_INDEX", "4"}}, 4, "JOB_COMPLETION_INDEX"},
  };
  for (const RankCase& one : cases) {
    SCOPED_TRACE(one.variable);
    ASSERT_OK_AND_ASSIGN(const auto found, find_node_rank(one.variables));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rank, one.rank);
    EXPECT_EQ(found->variable, one.variable);
  }
}

TEST(FindNodeRank, TheFirstInTheOrderCounts) {
  ASSERT_OK_AND_ASSIGN(
      const auto found,
      find_node_rank({{"SLURM_NODEID", "1"}, {"PMI_RANK", "5"}, {"JOB_COMPLETION_INDEX", "6"}}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1);
}

TEST(FindNodeRank, NoVariableIsNoRank) {
  ASSERT_OK_AND_ASSIGN(const auto found, find_node_rank({{"HOME", "/root"}}));
  EXPECT_FALSE(found.has_value());
}

TEST(FindNodeRank, WrongNumbersAreNamed) {
  for (const char* const text : {"", "one", "-1", "1.5", "99999999999"}) {
    const auto found = find_node_rank({{"SLURM_NODEID", text}});
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(found.status().message().find("SLURM_NODEID"), std::string::npos);
  }
}

TEST(FindNodeRank, AnEndpointOfThisHostIsKnown) {
  for (const char* const host : {"127.0.0.1", "127.9.9.9", "localhost", "::1"}) {
    EXPECT_TRUE(is_endpoint_host(host)) << host;
  }
  for (const char* const host : {"", "203.0.113.7", "2001:db8::7", "no-such-host.invalid"}) {
    EXPECT_FALSE(is_endpoint_host(host)) << host;
  }
}

TEST(FindNodeRank, SeveralProcessesOfAHostAreRefused) {
  const auto found =
      find_node_rank({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("ppr:1:node"), std::string::npos);
}

}  // namespace
}  // namespace ffdl::launch
