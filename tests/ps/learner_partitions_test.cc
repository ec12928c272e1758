#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "ps/learner_impl.h"
#include "support/learners.h"
#include "support/status_matchers.h"

// Who works on which partition, as the learners of one server see it.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::attach;
using testing::create_server;

class LearnerPartitions : public ::testing::Test {
 protected:
  static constexpr uint64_t kParameters = 4;

  // It folds nothing until it is started, so what is published second waits with its learner.
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
  ASSERT_OK(first->flush(deadline_in(10s)));
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
  ASSERT_OK(first->flush(deadline_in(10s)));
  EXPECT_FALSE(hold(*second, 1));
}

// What a dead learner published is seen by all, whoever has its slot by now.
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
  ASSERT_OK(learner->flush(deadline_in(10s)));
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
    ASSERT_OK(learner->finish_push(deadline_in(10s)).status());
    ASSERT_OK(learner->flush(deadline_in(10s)));
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
  ASSERT_OK(learner->rest_until(is_published, deadline_in(10s)));
  ASSERT_OK(server->stop());
  EXPECT_FAILS(learner->rest_until([] { return false; }, deadline_in(10s)), StatusCode::kCancelled,
               "has ended");
}

// Others go on with rounds meanwhile, and it joins the next one afterwards.
TEST_F(LearnerPartitions, NobodyWaitsForWhoRests) {
  const auto server = create(Synchrony::kBulk);
  ASSERT_OK(server->start());
  const auto resting = attach(*server);
  const auto busy = attach(*server);
  std::promise<void> is_back;
  std::thread others([&] {
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_OK(busy->begin_mini_batch(deadline_in(30s)));
      EXPECT_OK(busy->push(ones_, {0, i, i + 1}));
    }
    EXPECT_OK(busy->flush(deadline_in(30s)));
    is_back.get_future().wait();
    EXPECT_OK(busy->begin_mini_batch(deadline_in(30s)));
    EXPECT_OK(busy->push(ones_, {0, 20, 21}));
    EXPECT_OK(busy->flush(deadline_in(30s)));
  });
  EXPECT_OK(resting->rest_until([&] { return resting->committed(0) >= 20; }, deadline_in(30s)));
  EXPECT_OK(resting->begin_mini_batch(deadline_in(30s)));
  EXPECT_OK(resting->push(ones_, {1, 0, 1}));
  is_back.set_value();
  EXPECT_OK(resting->detach(deadline_in(30s)));
  others.join();
  EXPECT_EQ(server->stats().partitions[0].committed, 21U);
  EXPECT_EQ(server->stats().partitions[1].committed, 1U);
}

}  // namespace
}  // namespace ffdl
