#include "cluster/plan/placed_request.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::cluster {
namespace {

const std::vector<NodeWorkers> kCluster = {{"east", 4}, {"", 0}, {"west", 2}};

TEST(ToPlaced, ReplacesNamesByIndices) {
  const JobRequest job{.name = "a",
                       .sizes = {{1, 1.0}},
                       .may_wait = true,
                       .current_workers = 3,
                       .switch_cost = 0.5,
                       .only_nodes = {"west", ""},
                       .current_nodes = {{"west", 2}, {"east", 1}},
                       .may_move = false,
                       .is_admitted = true};
  ASSERT_OK_AND_ASSIGN(const auto placed, to_placed(std::span(&job, 1), kCluster));
  ASSERT_EQ(placed.size(), 1U);
  EXPECT_EQ(placed[0].name, "a");
  EXPECT_EQ(placed[0].sizes, job.sizes);
  EXPECT_TRUE(placed[0].may_wait);
  EXPECT_EQ(placed[0].current_workers, 3);
  EXPECT_EQ(placed[0].switch_cost, 0.5);
  EXPECT_EQ(placed[0].only_nodes, (std::vector{2, 1}));
  EXPECT_EQ(placed[0].current_nodes, (std::vector<Place>{{2, 2}, {0, 1}}));
  EXPECT_FALSE(placed[0].may_move);
  EXPECT_TRUE(placed[0].is_admitted);
  EXPECT_EQ(named(placed[0].current_nodes, kCluster), job.current_nodes);
  EXPECT_EQ(rooms_of(kCluster), (std::vector{4, 0, 2}));
}

TEST(ToPlaced, RefusesWhatIsNoCluster) {
  const JobRequest job{.name = "a", .sizes = {{1, 1.0}}, .only_nodes = {"north"}};
  EXPECT_FAILS(to_placed(std::span(&job, 1), kCluster), StatusCode::kInvalidArgument,
               "job 'a': node 'north' is not among the 3 nodes");
  EXPECT_FAILS(to_placed({}, std::vector<NodeWorkers>{{"a", -1}}), StatusCode::kInvalidArgument,
               "-1 workers available on node 'a'");
  EXPECT_FAILS(to_placed({}, std::vector<NodeWorkers>{{"a", 1}, {"a", 1}}),
               StatusCode::kInvalidArgument, "listed twice");
}

}  // namespace
}  // namespace ffdl::cluster
