#include "elastic/step/gradient_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::members_named;
using ffdl::testing::on_each;
using ffdl::testing::Ranks;
using ffdl::testing::soon;

// Knows the samples of a step, like a ledger.
class Knowing final : public StepParticipant {
 public:
  size_t record_bytes() const override { return 0; }
  void write_record(std::span<std::byte>) override {}
  void applied(uint64_t, const StepRecords&) override {}
  void world_changed(const World&) override {}
  void stable(uint64_t) override {}
  std::optional<uint64_t> step_samples() const override { return samples; }
  std::vector<std::byte> save() const override { return {}; }
  Status restore(std::span<const std::byte>) override { return {}; }
  std::optional<uint64_t> samples{};
};

// One member's exchange of two gradients.
class One {
 public:
  explicit One(Communicator& communicator,
               GradientExchange::Options options = {.participants = ParticipantList({})})
      : communicator_(&communicator, [](Communicator*) {}) {
    options.gradients = buffers_;
    if (options.participants.all().empty()) options.participants = ParticipantList(participants_);
    exchange = GradientExchange::create(std::move(options),
                                        {system_runtime(), [] { return Status(); }, soon,
                                         [this]() -> Result<std::shared_ptr<Communicator>> {
                                           ++arrivals;
                                           FFDL_RETURN_IF_ERROR(Status(lost));
                                           return communicator_;
                                         }});
  }

  void compute(float value) {
    first_ = {value, 2 * value};
    second_ = {3 * value};
  }
  // Runs the early operations of a bucketed step.
  void run_early(uint64_t samples) {
    exchange->run_early([&]() -> GradientExchange::FirstOperation {
      return {communicator_, exchange->describe({1, samples})};
    });
  }
  // Ends a step like a session, without a change of the world.
  Status end(uint64_t samples) {
    FFDL_RETURN_IF_ERROR(exchange->check_samples(samples));
    FFDL_RETURN_IF_ERROR(exchange->combine(samples));
    Status ended = exchange->take_failure();
    if (ended.ok()) ended = exchange->begin_step();
    EXPECT_TRUE(exchange->pause(kNoDeadline));
    if (ended.ok() && !exchange->has_gathered()) {
      ended = exchange->gather(*communicator_, exchange->describe({1, samples}), samples);
    }
    if (ended.ok()) ended = exchange->average(*communicator_);
    is_intact = exchange->is_intact();
    exchange->end_attempt();
    return ended;
  }
  std::vector<float> values() const { return {first_[0], first_[1], second_[0]}; }

  Knowing knowing{};
  int arrivals = 0;
  bool is_intact = true;
  Status lost{};
  std::unique_ptr<GradientExchange> exchange{};

 private:
  const std::shared_ptr<Communicator> communicator_;
  std::vector<float> first_ = std::vector<float>(2);
  std::vector<float> second_ = std::vector<float>(1);
  std::vector<Buffer> buffers_ = {{first_.data(), 2}, {second_.data(), 1}};
  std::vector<StepParticipant*> participants_ = {&knowing};
};

GradientExchange::Options with_buckets(uint64_t bytes) {
  return {.bucket_bytes = bytes, .participants = ParticipantList({})};
}

GradientExchange::Options with_micro_batches(std::vector<uint64_t> shares) {
  return {.micro_batch_shares = [shares = std::move(shares)] { return shares; },
          .micro_batch_samples = 2,
          .participants = ParticipantList({})};
}

Ranks ranks(int count) { return *make_local_communicators(1, members_named(count)); }

// The caller of the three forms is the same: only what precedes the end of a step differs.
TEST(GradientExchange, HasOneMeanInEveryForm) {
  const std::vector<float> mean = {2, 4, 6};
  for (const std::string form : {"whole", "parts", "buckets", "micro-batches"}) {
    const auto world = ranks(2);
    on_each(world, [&](Communicator& communicator, int rank) {
      const bool has_micro_batches = form == "micro-batches";
      One one(communicator, form == "buckets"   ? with_buckets(1)
                            : has_micro_batches ? with_micro_batches({1, 1})
                                                : with_buckets(0));
      const float value = rank == 0 ? 1 : 3;
      one.compute(value);
      EXPECT_FALSE(one.exchange->has_begun());
      if (form == "parts" || has_micro_batches) {
        ASSERT_OK(one.exchange->add(2));
        EXPECT_TRUE(one.exchange->has_begun());
      }
      if (form == "buckets") {
        ASSERT_OK(one.exchange->note(1, 2));
        EXPECT_TRUE(one.exchange->has_begun());
        one.run_early(2);
      }
      ASSERT_OK(one.end(2));
      EXPECT_EQ(one.values(), mean) << form;
      EXPECT_EQ(one.exchange->messages().samples(), 4U);
      EXPECT_EQ(one.arrivals, has_micro_batches ? 2 : 1);
      EXPECT_FALSE(one.is_intact);
      EXPECT_FALSE(one.exchange->has_begun());
      EXPECT_LE(one.exchange->early_buckets(), form == "buckets" ? 1U : 0U);
    });
  }
}

// A member that added parts may still end its step without samples, such as after a failed check.
TEST(GradientExchange, LeavesOutThePartsOfAMemberWithoutSamples) {
  for (const bool has_micro_batches : {false, true}) {
    const auto world = ranks(2);
    on_each(world, [&](Communicator& communicator, int rank) {
      One one(communicator, has_micro_batches ? with_micro_batches({2, 1}) : with_buckets(0));
      const float value = rank == 0 ? 1 : 3;
      for (const uint64_t given : {0, 2, 0}) {
        one.compute(value);
        ASSERT_OK(one.exchange->add(2));
        ASSERT_OK(one.end(rank == 0 ? 2 : given));
        EXPECT_EQ(one.values(), given == 0 ? (std::vector<float>{1, 2, 3})
                                           : (std::vector<float>{2, 4, 6}));
        EXPECT_FALSE(one.exchange->has_begun());
      }
    });
  }
}

TEST(GradientExchange, RefusesFormsThatExcludeEachOther) {
  const auto world = ranks(1);
  for (auto options : {with_buckets(0), with_micro_batches({1})}) {
    One one(*world[0], options);
    EXPECT_EQ(one.exchange->note(1, 2).code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(one.exchange->has_begun());
  }
  One added(*world[0], with_buckets(1));
  ASSERT_OK(added.exchange->add(2));
  EXPECT_EQ(added.exchange->note(1, 2).code(), StatusCode::kInvalidArgument);
  One noted(*world[0], with_buckets(1));
  ASSERT_OK(noted.exchange->note(1, 2));
  EXPECT_EQ(noted.exchange->add(2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(noted.exchange->check_samples(3).code(), StatusCode::kInvalidArgument);
  EXPECT_OK(noted.exchange->check_samples(2));
}

TEST(GradientExchange, ChecksTheSamplesOfAStep) {
  const auto world = ranks(1);
  One one(*world[0], with_buckets(1));
  one.knowing.samples = 5;
  EXPECT_EQ(one.exchange->check_samples(4).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(one.exchange->note(1, 4).code(), StatusCode::kInvalidArgument);
  EXPECT_OK(one.exchange->check_samples(0));
  ASSERT_OK(one.exchange->add(3));
  EXPECT_EQ(one.exchange->check_samples(5).code(), StatusCode::kInvalidArgument);
  ASSERT_OK(one.exchange->add(2));
  EXPECT_OK(one.exchange->check_samples(5));
  EXPECT_OK(one.exchange->combine(0));  // drops them
  EXPECT_FALSE(one.exchange->has_begun());
  One other(*world[0], with_micro_batches({2}));
  ASSERT_OK(other.exchange->add(2));
  ASSERT_OK(other.exchange->add(1));
  EXPECT_FAILS(other.exchange->check_samples(2), StatusCode::kInvalidArgument,
               "micro-batches with 3 samples were added");
  EXPECT_OK(other.exchange->check_samples(3));
  EXPECT_OK(other.exchange->check_samples(0));
}

// A member reports the failure of a world at the end of its step, not where it adds.
TEST(GradientExchange, KeepsTheFailureOfAMicroBatchForTheEndOfItsStep) {
  const auto world = ranks(1);
  One one(*world[0], with_micro_batches({1}));
  one.lost = Status(StatusCode::kPeerLost, "one that was to be lost here");
  one.compute(1);
  ASSERT_OK(one.exchange->add(2));
  ASSERT_OK(one.exchange->add(2));  // it is not asked again
  EXPECT_EQ(one.arrivals, 1);
  EXPECT_EQ(one.end(2).code(), StatusCode::kPeerLost);
  EXPECT_FALSE(one.is_intact);
  one.lost = {};
  one.exchange->change_world();
  one.compute(1);
  ASSERT_OK(one.exchange->add(2));
  ASSERT_OK(one.end(2));
  EXPECT_EQ(one.values(), (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace ffdl::elastic
