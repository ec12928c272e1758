#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ps/learner/learner_impl.h"
#include "ps/segment/last_record.h"
#include "support/learners.h"
#include "support/status_matchers.h"

// Tests the assignment of partitions, as the learners of one server see it.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::attach;
using testing::create_server;

class LearnerPartitions : public ::testing::Test {
 protected:
  static constexpr uint64_t kParameters = 4;

  // Creates a server that folds nothing until it is started. The second publication waits with its
  // learner.
  std::unique_ptr<ParameterServer> create(Synchrony synchrony = Synchrony::kAsync) {
    ParameterServerOptions options;
    options.parameters = kParameters;
    options.rule.learning_rate = 1;
    options.partitions = 3;
    options.synchrony = synchrony;
    return create_server(options);
  }
  static bool hold(Learner& learner, uint32_t partition) {
    const auto held = learner.hold(partition);
    EXPECT_OK(held);
    return held.ok() && *held;
  }
  static uint64_t pushed(const Learner& learner, uint32_t partition) {
    const auto position = learner.pushed(partition);
    EXPECT_OK(position);
    return position.ok() ? *position : 0;
  }

  const std::vector<float> ones_ = std::vector<float>(kParameters, 1.0F);
};

TEST_F(LearnerPartitions, AreHeldByOneAtATime) {
  const auto server = create();
  auto first = attach(*server);
  const auto second = attach(*server);
  EXPECT_TRUE(first->is_free(1));
  EXPECT_TRUE(hold(*first, 1));
  EXPECT_TRUE(hold(*first, 1)) << "it has it already";
  EXPECT_FALSE(first->is_free(1));
  EXPECT_FALSE(second->is_free(1));
  EXPECT_FALSE(hold(*second, 1));
  EXPECT_TRUE(hold(*second, 2));
  ASSERT_OK(first->let_go(1));
  EXPECT_TRUE(hold(*second, 1));
  EXPECT_TRUE(hold(*first, 0));
  first.reset();
  EXPECT_TRUE(second->is_free(0)) << "its learner is gone";
  EXPECT_EQ(second->partitions(), 3U);
  EXPECT_FAILS(second->hold(3), StatusCode::kInvalidArgument, "there are 3");
}

TEST_F(LearnerPartitions, AreNotAnothersUntilWhatWasPushedIsFolded) {
  const auto server = create();
  const auto first = attach(*server);
  const auto second = attach(*server);
  ASSERT_TRUE(hold(*first, 0));
  ASSERT_TRUE(hold(*first, 1));
  ASSERT_OK(first->push(ones_, {.partition = 0, .begin = 0, .end = 4}));
  EXPECT_EQ(second->committed(0), 4U) << "it is published";
  ASSERT_OK(first->let_go(0));
  EXPECT_FALSE(second->is_free(0));
  EXPECT_FALSE(hold(*second, 0)) << "what follows could be folded before it";
  EXPECT_TRUE(hold(*first, 0)) << "not in the same slot";
  ASSERT_OK(first->let_go(0));

  ASSERT_OK(first->push(ones_, {.partition = 1, .begin = 0, .end = 5}));
  EXPECT_EQ(first->committed(1), 0U);
  EXPECT_EQ(pushed(*first, 1), 5U);
  ASSERT_OK(first->let_go(1));
  EXPECT_FALSE(hold(*second, 1)) << "nobody else can see how far it is";
  ASSERT_OK(server->start());
  ASSERT_OK(first->flush(deadline_in(60s)));
  for (const uint32_t partition : {0, 1}) {
    EXPECT_TRUE(second->is_free(partition));
    EXPECT_TRUE(hold(*second, partition));
  }
  EXPECT_EQ(pushed(*second, 0), 4U);
  EXPECT_EQ(pushed(*second, 1), 5U);
}

TEST_F(LearnerPartitions, ThatAreTakenBackAreKept) {
  const auto server = create();
  const auto first = attach(*server);
  const auto second = attach(*server);
  ASSERT_TRUE(hold(*first, 1));
  for (uint64_t i = 0; i < 2; ++i) ASSERT_OK(first->push(ones_, {1, i, i + 1}));
  ASSERT_OK(first->let_go(1));
  ASSERT_TRUE(hold(*first, 1));
  ASSERT_OK(server->start());
  ASSERT_OK(first->flush(deadline_in(60s)));
  EXPECT_FALSE(hold(*second, 1));
}

// All learners see the publications of a dead learner, even after another has taken its slot.
TEST_F(LearnerPartitions, AreAsFarAsTheirLastLearnerPublished) {
  const auto server = create();
  ASSERT_OK(attach(*server, 0)->push(ones_, {.partition = 2, .begin = 0, .end = 3}));
  const auto other = attach(*server, 1);
  EXPECT_EQ(other->committed(2), 3U);
  const auto successor = attach(*server, 0);
  EXPECT_EQ(other->committed(2), 3U);
  EXPECT_EQ(successor->committed(2), 3U);
  EXPECT_FALSE(hold(*other, 2));
  EXPECT_TRUE(hold(*successor, 2));
}

// Plants another owner's number in the record, and in the slot.
TEST_F(LearnerPartitions, AWrongOwnerIsFoundWhereItEnters) {
  ParameterServerOptions options;
  options.name = "owners-" + std::to_string(getpid());
  options.parameters = kParameters;
  options.rule.learning_rate = 1;
  const auto server = create_server(options);
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, ps::open_segment(options.name));
  ASSERT_OK_AND_ASSIGN(const ps::Region region, ps::read_region(segment));
  const auto learner = attach(*server, 0);
  ASSERT_OK(learner->push(ones_, {.partition = 0, .begin = 0, .end = 3}));
  ps::Meta& meta = region.meta(0, 1);
  EXPECT_EQ(meta.owner, region.learner(0).owner);
  const std::vector<SampleRange> ranges = {{.partition = 0, .begin = 0, .end = 3}};
  const uint64_t right = meta.owner;
  meta.owner = right + 2;
  ps::write_record(region, 0, meta, ranges, {});
  EXPECT_FAILS(attach(*server, 1)->hold(0), StatusCode::kCorrupt, "hold a partition");
  meta.owner = right;
  ps::write_record(region, 0, meta, ranges, {});

  const auto second = attach(*server, 1);
  region.learner(1).owner = 77;
  EXPECT_FAILS(second->push(ones_, {.partition = 1, .begin = 0, .end = 1}), StatusCode::kCorrupt,
               "slot 1 of segment 'owners-");
}

TEST_F(LearnerPartitions, ASlotWithARecordOfAnotherOwnerTakesNoLearner) {
  ParameterServerOptions options;
  options.name = "heirs-" + std::to_string(getpid());
  options.parameters = kParameters;
  options.rule.learning_rate = 1;
  const auto server = create_server(options);
  ASSERT_OK(attach(*server, 0)->push(ones_, {.partition = 0, .begin = 0, .end = 3}));
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, ps::open_segment(options.name));
  ASSERT_OK_AND_ASSIGN(const ps::Region region, ps::read_region(segment));
  region.meta(0, 1).owner += 2;
  EXPECT_FAILS(Learner::attach(*server, deadline_in(60s), {.slot = 0}), StatusCode::kCorrupt,
               "gradient 1 was published by no owner of the slot");
  region.meta(0, 1).owner -= 2;
  EXPECT_OK(Learner::attach(*server, deadline_in(60s), {.slot = 0}));
}

// It names wrong samples: a learner that went on after it would train some twice, or none.
TEST_F(LearnerPartitions, ADamagedPublicationEndsThoseThatReadIt) {
  ParameterServerOptions options;
  options.name = "damaged-" + std::to_string(getpid());
  options.parameters = kParameters;
  options.rule.learning_rate = 1;
  const auto server = create_server(options);
  const auto first = attach(*server, 0);
  const auto second = attach(*server, 1);
  const auto third = attach(*server, 2);
  ASSERT_OK(first->push(ones_, {.partition = 0, .begin = 0, .end = 3}));
  EXPECT_EQ(second->committed(0), 3U);
  EXPECT_EQ(third->publications().size(), 1U);
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, ps::open_segment(options.name));
  ASSERT_OK_AND_ASSIGN(const ps::Region region, ps::read_region(segment));
  region.ranges(0, 1)[0].end = 2;
  const auto fourth = attach(*server, 3);
  EXPECT_EQ(fourth->committed(0), 0U);
  EXPECT_FAILS(fourth->push(ones_, {.partition = 0, .begin = 0, .end = 1}), StatusCode::kCorrupt,
               "push: the last publication of learner 0 fails its checksum");
  EXPECT_FAILS(attach(*server, 4)->push(ones_, {.partition = 0, .begin = 0, .end = 1}),
               StatusCode::kCorrupt, "restore from a checkpoint");
  EXPECT_FAILS(attach(*server, 4)->hold(0), StatusCode::kCorrupt, "hold a partition");
  const auto reader = attach(*server, 4);
  EXPECT_TRUE(reader->publications().empty());
  EXPECT_FAILS(reader->begin_mini_batch(deadline_in(60s)), StatusCode::kCorrupt,
               "begin a mini-batch");
}

TEST_F(LearnerPartitions, ToldPublicationsAreAll) {
  const auto server = create();
  ASSERT_OK(server->start());
  const auto learner = attach(*server, 3);
  std::vector<Publication> told;
  const auto other = attach(*server);
  learner->tell_publications([&](const Publication& made) {
    EXPECT_EQ(other->committed(0), made.samples.back().end) << "it is told when it has happened";
    told.push_back(made);
  });
  for (uint64_t i = 0; i < 50; ++i) ASSERT_OK(learner->push(ones_, {0, i, i + 1}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  uint64_t next = 0;
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].slot, 3);
    EXPECT_EQ(told[i].sequence, i + 1);
    for (const SampleRange& range : told[i].samples) {
      EXPECT_EQ(range.begin, next);
      next = range.end;
    }
  }
  EXPECT_EQ(next, 50U);
  EXPECT_EQ(told.size(), learner->stats().published);
  const std::vector<Publication> newest = other->publications();
  ASSERT_EQ(newest.size(), 1U);
  EXPECT_EQ(newest[0].sequence, told.back().sequence);
  EXPECT_EQ(newest[0].samples, told.back().samples);
}

TEST_F(LearnerPartitions, AreLetGoBesideAPush) {
  const auto server = create();
  ASSERT_OK(server->start());
  const auto learner = attach(*server);
  const auto other = attach(*server);
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(hold(*learner, 0));
    uint64_t told = 0;
    learner->tell_publications([&](const Publication& made) { told = made.samples.back().end; });
    ASSERT_OK(learner->start_push(ones_, {0, i, i + 1}));
    learner->tell_publications(nullptr);
    EXPECT_EQ(told, i + 1) << "it waits for a push that tells";
    ASSERT_OK(learner->let_go(0));
    ASSERT_OK(learner->finish_push(deadline_in(60s)).status());
    ASSERT_OK(learner->flush(deadline_in(60s)));
    ASSERT_TRUE(hold(*other, 0));
    ASSERT_OK(other->let_go(0));
  }
}

TEST_F(LearnerPartitions, WhoRestsPublishesWhatItHasAccumulated) {
  const auto server = create();
  const auto learner = attach(*server);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_OK(learner->push(ones_, {0, i, i + 1}));
  const auto is_published = [&] { return learner->committed(0) == 3; };
  EXPECT_FAILS(learner->rest_until(is_published, deadline_in(1ms)), StatusCode::kTimeout,
               "wait longer");
  ASSERT_OK(server->start());
  ASSERT_OK(learner->rest_until(is_published, deadline_in(60s)));
  ASSERT_OK(server->stop());
  EXPECT_FAILS(learner->rest_until([] { return false; }, deadline_in(60s)), StatusCode::kCancelled,
               "has ended");
}

// The others continue with rounds, and the resting learner joins the next one.
TEST_F(LearnerPartitions, NobodyWaitsForWhoRests) {
  const auto server = create(Synchrony::kBulk);
  ASSERT_OK(server->start());
  const auto resting = attach(*server);
  const auto busy = attach(*server);
  std::promise<void> is_back;
  std::thread others([&] {
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_OK(busy->begin_mini_batch(deadline_in(60s)));
      EXPECT_OK(busy->push(ones_, {0, i, i + 1}));
    }
    EXPECT_OK(busy->flush(deadline_in(60s)));
    is_back.get_future().wait();
    EXPECT_OK(busy->begin_mini_batch(deadline_in(60s)));
    EXPECT_OK(busy->push(ones_, {0, 20, 21}));
    EXPECT_OK(busy->flush(deadline_in(60s)));
  });
  EXPECT_OK(resting->rest_until([&] { return resting->committed(0) >= 20; }, deadline_in(60s)));
  EXPECT_OK(resting->begin_mini_batch(deadline_in(60s)));
  EXPECT_OK(resting->push(ones_, {1, 0, 1}));
  is_back.set_value();
  EXPECT_OK(resting->detach(deadline_in(60s)));
  others.join();
  EXPECT_EQ(server->stats().partitions[0].committed, 21U);
  EXPECT_EQ(server->stats().partitions[1].committed, 1U);
}

}  // namespace
}  // namespace ffdl
