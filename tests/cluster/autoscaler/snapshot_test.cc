#include "cluster/autoscaler/snapshot.h"

#include <gtest/gtest.h>

#include "cluster/autoscaler/decide_allocations.h"
#include "support/status_matchers.h"

namespace ffdl::cluster {
namespace {

class SnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_store("mem://", system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
  }
  void put(std::string_view key, const std::string& value) { ASSERT_OK(store_->put(key, value)); }
  void put_request(const std::string& job, Revision place) {
    put(key_of(kRequests, job), encode(RequestRecord{{"", {{1, 1, 0}}}, place}));
  }

  std::unique_ptr<Store> store_;
};

TEST_F(SnapshotTest, AnEmptyStoreIsAnEmptyCluster) {
  ASSERT_OK_AND_ASSIGN(const Snapshot empty, take_snapshot(*store_));
  EXPECT_TRUE(empty.nodes.empty());
  EXPECT_TRUE(empty.jobs.empty());
  EXPECT_EQ(empty.answered, 0U);
}

TEST_F(SnapshotTest, JobsComeInOrderOfTheirPlaces) {
  put_request("late", 0);
  put_request("again", 1);  // it lost its lease and kept its position
  put(key_of(kRequests, "odd"), "not a record");
  ASSERT_OK(offer_workers(*store_, "a", 2));
  ASSERT_OK(offer_workers(*store_, "b", 3));
  ASSERT_OK(offer_workers(*store_, "c", 1));
  ASSERT_OK(offer_workers(*store_, "c", 0));
  put(key_of(kOffers, "odd"), "many");
  ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
  EXPECT_EQ(snapshot.nodes, (std::vector<NodeWorkers>{{"a", 2}, {"b", 3}, {"odd", 0}}));
  ASSERT_OK_AND_ASSIGN(const Allocations shown, read_allocations(*store_));
  EXPECT_EQ(shown.workers, 5);
  EXPECT_EQ(shown.nodes, snapshot.nodes);
  ASSERT_EQ(snapshot.jobs.size(), 2U);
  EXPECT_EQ(snapshot.jobs[0].request.name, "again");
  EXPECT_EQ(snapshot.jobs[1].request.name, "late");
  EXPECT_EQ(snapshot.jobs[0].granted(), 0);
}

// Requests that can be read and not planned, as another version or program may write them. Each is
// left out, and the decision for the other jobs is made.
TEST_F(SnapshotTest, ARequestThatCannotBePlannedHoldsUpNoOther) {
  put_request("good", 1);
  ASSERT_OK(offer_workers(*store_, "a", 2));
  const JobRequest plain{.name = "", .sizes = {{1, 1, 0}}};
  JobRequest twice = plain;
  twice.sizes.push_back({1, 2, 0});
  for (const auto& [name, request] : std::initializer_list<std::pair<std::string, JobRequest>>{
           {"twice", twice}, {"a name", plain}, {"a/b", plain}}) {
    put(key_of(kRequests, name), encode(RequestRecord{request, 0}));
    ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
    ASSERT_EQ(snapshot.jobs.size(), 1U) << name;
    ASSERT_OK_AND_ASSIGN(const AllocationDecision decision, decide_allocations(snapshot, {}));
    EXPECT_EQ(decision.jobs[0].workers, 1) << name;
    ASSERT_OK(store_->remove(key_of(kRequests, name)));
  }
}

TEST_F(SnapshotTest, SpeedsAreThoseOfTheJob) {
  put_request("a", 5);
  put_request("b", 6);
  put("ffdl-speeds/a", encode(std::vector<StepMeasurement>{{1, 1, 64, 10, 0.5}}));
  put("ffdl-speeds/b", "not a record");
  put("ffdl-speeds/gone", encode(std::vector<StepMeasurement>{{1, 1, 64, 10, 0.5}}));
  ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
  EXPECT_EQ(snapshot.jobs[0].speeds, (std::vector<StepMeasurement>{{1, 1, 64, 10, 0.5}}));
  EXPECT_TRUE(snapshot.jobs[1].speeds.empty());
}

TEST_F(SnapshotTest, AnAnswerToAnOlderLifeIsNone) {
  put_request("a", 5);
  put_request("b", 6);
  put(kAnswers, encode(std::vector<Answer>{{5, {.name = "a", .workers = 2}},
                                           {4, {.name = "b", .workers = 3}},
                                           {3, {.name = "gone", .workers = 3}}}));
  ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
  EXPECT_EQ(snapshot.jobs[0].granted(), 2);
  EXPECT_EQ(snapshot.jobs[1].answer, std::nullopt);
  EXPECT_EQ(snapshot.answers.size(), 3U);
  EXPECT_GT(snapshot.answered, 0U);
  ASSERT_OK_AND_ASSIGN(const Allocations shown, read_allocations(*store_));
  EXPECT_EQ(shown.jobs[0].workers, 2);
  EXPECT_EQ(shown.jobs[1].reason, "there is no decision yet");
}

TEST_F(SnapshotTest, WhoRunsWithoutADemandIsAway) {
  const char* node = R"({"node":0,"process":1,"min_workers":1,"max_workers":1,"workers":[]})";
  put("ffdl/b/launch/wanted", "1");
  put("ffdl/b/launch/nodes/0", node);
  put(kAnswers, encode(std::vector<Answer>{{5, {.name = "a", .workers = 1}},
                                           {6, {.name = "b", .workers = 1}}}));
  ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
  ASSERT_EQ(snapshot.jobs.size(), 1U);  // the other job has ended
  EXPECT_EQ(snapshot.jobs[0].request.name, "b");
  EXPECT_TRUE(snapshot.jobs[0].is_away);
  EXPECT_EQ(snapshot.jobs[0].granted(), 1);
}

TEST_F(SnapshotTest, SeesWhoRuns) {
  put_request("a", 5);
  const auto workers = [](const std::string& phases) {
    std::string list;
    int number = 0;
    for (const char phase : phases) {
      const char* name = phase == 'r'   ? "running"
                         : phase == 's' ? "stopping"
                         : phase == 'p' ? "paused"
                         : phase == 'f' ? "finished"
                                        : "idle";
      list += std::string(list.empty() ? "" : ",") + R"({"id":"worker-)" +
              std::to_string(number++) + R"(","phase":")" + name +
              R"(","process":1,"restarts":0})";
    }
    return R"({"node":0,"process":1,"min_workers":1,"max_workers":4,"workers":[)" + list + "]}";
  };
  struct Phases {
    const char *phases, *wanted;
    int running;
    bool is_starting;
  };
  for (const Phases& row : {Phases{"rrii", "2", 2, false}, Phases{"riii", "2", 1, true},
                            Phases{"rpii", "2", 2, false}, Phases{"rrss", "2", 4, false},
                            Phases{"rfii", "2", 1, false}, Phases{"rr", "4", 2, false}}) {
    put("ffdl/a/launch/wanted", row.wanted);
    put("ffdl/a/launch/nodes/0", workers(row.phases));
    ASSERT_OK_AND_ASSIGN(const Snapshot snapshot, take_snapshot(*store_));
    const JobFacts& job = snapshot.jobs[0];
    EXPECT_EQ(job.wanted, row.wanted[0] - '0') << row.phases;
    EXPECT_EQ(job.running, row.running) << row.phases;
    EXPECT_EQ(job.is_starting, row.is_starting) << row.phases;
  }
}

}  // namespace
}  // namespace ffdl::cluster
