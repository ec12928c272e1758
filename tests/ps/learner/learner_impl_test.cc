#include "ps/learner/learner_impl.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "support/learners.h"
#include "support/status_matchers.h"

// Tests a learner while the server is late, absent, bounded, or ends.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::attach;
using testing::next_sample;

constexpr uint64_t kPushed = 1'500;

ParameterServerOptions sum_options() {
  ParameterServerOptions options;
  options.parameters = kPushed;
  options.rule.learning_rate = 1;
  return options;
}

void fill(std::span<float> gradient, float value) {
  std::fill(gradient.begin(), gradient.end(), value);
}

TEST(Learner, AddsUpWhileTheServerIsLateAndNeverWaits) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  for (uint64_t sample = 0; sample < 100; ++sample) {
    ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(0s)));  // no server: no wait
    fill(slot, static_cast<float>(sample));
    ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                         learner->push(Gradient::slot(), {.begin = sample, .end = sample + 1}));
    EXPECT_EQ(pushed, sample == 0 ? PushResult::kPublished : PushResult::kAccumulated);
  }
  EXPECT_FAILS(learner->flush(deadline_in(5ms)), StatusCode::kTimeout, "not folded");
  EXPECT_EQ(learner->stats().published, 1U);
  EXPECT_EQ(learner->stats().accumulated, 98U);  // sample 1 began the second gradient

  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -4950.0F);
  EXPECT_EQ(server->weights()[kPushed - 1], -4950.0F);
  const ParameterServerStats stats = server->stats();
  EXPECT_EQ(stats.learners[0].mini_batches, 100U);
  EXPECT_EQ(stats.learners[0].folded, 2U);
  EXPECT_EQ(stats.partitions[0].committed, 100U);
}

TEST(Learner, HandedOverGradientsAreAddedUpToo) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  for (int i = 0; i < 10; ++i) ASSERT_OK(learner->push(ones, next_sample(*learner)));
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[7], -10.0F);
}

TEST(Learner, OneGradientCanNameSeveralRanges) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  const std::vector<SampleRange> first = {{.partition = 0, .begin = 0, .end = 3},
                                          {.partition = 1, .begin = 0, .end = 2},
                                          {.partition = 0, .begin = 3, .end = 4}};
  ASSERT_OK(learner->push(ones, first));
  // A single push may not repeat a position either.
  const std::vector<SampleRange> again = {{.partition = 0, .begin = 4, .end = 9},
                                          {.partition = 0, .begin = 8, .end = 10}};
  EXPECT_FAILS(learner->push(ones, again), StatusCode::kInvalidArgument,
               "all before 9 are committed already");
  ASSERT_OK(learner->push(ones, {.begin = 4, .end = 9}));  // nothing of the refused push stays
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  const ParameterServerStats stats = server->stats();
  EXPECT_EQ(stats.partitions[0].samples, 9U);
  EXPECT_EQ(stats.partitions[0].missing, 0U);
  EXPECT_EQ(stats.partitions[1].committed, 2U);
  EXPECT_EQ(stats.learners[0].mini_batches, 2U);
}

// A table of 100 rows of 7 floats from parameter 10 on; a bias in the last 5.
struct TinyTable {
  static constexpr uint64_t kBegin = 10;
  static constexpr uint64_t kRowSize = 7;
  static constexpr uint64_t kBias = kPushed - 5;

  std::vector<uint64_t> rows;
  std::vector<float> values;
  std::vector<float> bias = std::vector<float>(5, 1.0F);

  TinyTable(std::vector<uint64_t> rows_in, float value)
      : rows(std::move(rows_in)), values(rows.size() * kRowSize, value) {}
  Result<PushResult> push(Learner& learner) const { return push(learner, next_sample(learner)); }
  Result<PushResult> push(Learner& learner, SampleRange samples) const {
    const RowGradient table{.table = kBegin, .row_size = kRowSize, .rows = rows, .values = values};
    const PartGradient part{.begin = kBias, .values = bias};
    return learner.push(Gradient::sparse({&table, 1}, {&part, 1}), samples);
  }
  static uint64_t row(uint64_t r) { return kBegin + r * kRowSize; }
};

ParameterServerOptions sparse_options() {
  ParameterServerOptions options = sum_options();
  options.rows_max = 8;
  options.threads = 2;
  return options;
}

TEST(Learner, SparseGradientsAreAddedUpWhileTheServerIsLate) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sparse_options()));
  auto learner = attach(*server);
  ASSERT_OK_AND_ASSIGN(const PushResult first,
                       TinyTable({5, 2, 5}, 1).push(*learner, {.begin = 0, .end = 3}));
  EXPECT_EQ(first, PushResult::kPublished);
  ASSERT_OK(TinyTable({50, 2}, 10).push(*learner, {.begin = 3, .end = 4}));
  ASSERT_OK(TinyTable({60, 50}, 100).push(*learner, {.begin = 4, .end = 5}));
  EXPECT_EQ(learner->stats().accumulated, 1U);
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  const std::span<const float> weights = learner->live_weights();
  EXPECT_EQ(weights[TinyTable::row(5)], -2.0F);  // it came twice in one gradient
  EXPECT_EQ(weights[TinyTable::row(2) + 6], -11.0F);
  EXPECT_EQ(weights[TinyTable::row(50)], -110.0F);
  EXPECT_EQ(weights[TinyTable::row(60)], -100.0F);
  EXPECT_EQ(weights[TinyTable::row(61)], 0.0F);
  EXPECT_EQ(weights[TinyTable::kBias], -3.0F);
  EXPECT_EQ(weights[0], 0.0F);
  EXPECT_EQ(server->stats().partitions[0].samples, 5U);

  std::vector<float> rows(2 * TinyTable::kRowSize);
  const uint64_t wanted[] = {50, 2};
  ASSERT_OK_AND_ASSIGN(const uint64_t version, learner->pull_rows({.table = TinyTable::kBegin,
                                                                   .row_size = TinyTable::kRowSize,
                                                                   .rows = wanted,
                                                                   .values = rows}));
  EXPECT_EQ(version, 2U);
  EXPECT_EQ(rows[0], -110.0F);
  EXPECT_EQ(rows[TinyTable::kRowSize], -11.0F);
}

// Sparse and dense gradients in any order make the same sum: in place and handed over, clipped or
// not.
TEST(Learner, SparseAndDenseGradientsMix) {
  for (const bool clipped : {false, true}) {
    for (int order = 0; order < 8; ++order) {
      ParameterServerOptions options = sparse_options();
      options.clip_norm = clipped ? 1e-3F : 0;
      ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
      auto learner = attach(*server);
      std::vector<double> expected(kPushed);
      const auto expect = [&](const std::vector<float>& gradient) {
        double square = 0;
        for (const float g : gradient) square += double{g} * double{g};
        const double scale = clipped ? 1e-3 / std::sqrt(square) : 1;
        for (uint64_t i = 0; i < kPushed; ++i) expected[i] -= scale * gradient[i];
      };
      const TinyTable sparse({3, 90, 4}, 2);
      std::vector<float> as_dense(kPushed);
      for (const uint64_t r : sparse.rows) {
        std::fill_n(as_dense.begin() + static_cast<int64_t>(TinyTable::row(r)), 7, 2.0F);
      }
      std::fill_n(as_dense.end() - 5, 5, 1.0F);
      const std::vector<float> ones(kPushed, 1.0F);
      ASSERT_OK(learner->push(ones, next_sample(*learner)));  // published; the rest is added up
      expect(ones);
      for (int i = 0; i < 3; ++i) {
        if (order >> i & 1) {
          ASSERT_OK(sparse.push(*learner));
          expect(as_dense);
        } else if (i == 1) {
          ASSERT_OK(learner->push(ones, next_sample(*learner)));
          expect(ones);
        } else {
          ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(0s)));
          fill(slot, 1);
          ASSERT_OK(learner->push(Gradient::slot(), next_sample(*learner)));
          expect(ones);
        }
      }
      ASSERT_OK(server->start());
      ASSERT_OK(learner->flush(deadline_in(60s)));
      for (uint64_t i = 0; i < kPushed; ++i) {
        ASSERT_NEAR(server->weights()[i], expected[i], clipped ? 1e-8 : 0)
            << "order " << order << ", parameter " << i;
      }
    }
  }
}

TEST(Learner, SparseGradientsAreRefusedBeforeAnythingIsStored) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sparse_options()));
  auto learner = attach(*server);
  ASSERT_OK(TinyTable({1}, 1).push(*learner, next_sample(*learner, 1)));
  TinyTable bad({7, 8}, 1);
  bad.values[9] = std::nanf("");
  EXPECT_FAILS(bad.push(*learner), StatusCode::kInvalidArgument,
               fmt::format("element {} of the gradient is nan", TinyTable::row(8) + 2));
  EXPECT_FAILS(TinyTable({99999}, 1).push(*learner), StatusCode::kInvalidArgument, "row 99999");
  // Eight separate places fit: seven rows and the bias. Then new rows are refused; known rows still
  // fit.
  ASSERT_OK(TinyTable({1, 3, 5, 7, 9, 11, 13}, 1).push(*learner, {.begin = 0, .end = 1}));
  EXPECT_FAILS(TinyTable({20}, 1).push(*learner, {.begin = 1, .end = 2}), StatusCode::kExhausted,
               "9 separate rows or parts, and rows_max is 8; flush() and push again");
  ASSERT_OK(TinyTable({1, 5}, 1).push(*learner, {.begin = 1, .end = 2}));
  std::vector<float> row(5);
  EXPECT_FAILS(learner->pull_rows({0, 5, std::vector<uint64_t>{300}, row}),
               StatusCode::kInvalidArgument, "row 300 of 300");
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[TinyTable::row(1)], -3.0F);
  EXPECT_EQ(server->weights()[TinyTable::row(8)], 0.0F);
  EXPECT_EQ(server->weights()[TinyTable::row(20)], 0.0F);

  ASSERT_OK_AND_ASSIGN(auto dense_only, ParameterServer::create(sum_options()));
  EXPECT_FAILS(TinyTable({1}, 1).push(*attach(*dense_only)), StatusCode::kInvalidArgument,
               "create it with rows_max");
}

TEST(Learner, SixteenBitGradientsOfSmallIntegersAreExact) {
  for (const auto type : {DType::kBFloat16, DType::kFloat16}) {
    ParameterServerOptions options = sparse_options();
    options.gradient_type = type;
    ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
    auto learner = attach(*server);
    for (uint64_t i = 0; i < 10; ++i) {  // one published, nine added up
      ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(0s)));
      fill(slot, static_cast<float>(i));
      ASSERT_OK(learner->push(Gradient::slot(), {.begin = i, .end = i + 1}));
    }
    ASSERT_OK(learner->push(std::vector<float>(kPushed, 2.0F), next_sample(*learner, 2)));
    const uint16_t three = type == DType::kBFloat16 ? 0x4040 : 0x4200;
    ASSERT_OK(learner->push(Gradient::dense(type, std::vector<uint16_t>(kPushed, three)),
                            next_sample(*learner, 2)));
    const std::vector<SampleRange> samples = {{.begin = 10, .end = 12},
                                              {.partition = 1, .begin = 3, .end = 5}};
    ASSERT_OK(learner->push(Gradient::dense(type, std::vector<uint16_t>(kPushed, three)), samples));
    ASSERT_OK(TinyTable({0}, 4).push(*learner, next_sample(*learner, 2)));
    ASSERT_OK(server->start());
    ASSERT_OK(learner->flush(deadline_in(60s)));
    EXPECT_EQ(server->weights()[0], -53.0F);
    EXPECT_EQ(server->weights()[TinyTable::row(0)], -57.0F);
    EXPECT_EQ(server->stats().learners[0].mini_batches, 14U);
    EXPECT_EQ(learner->gradient_type(), type);
    EXPECT_EQ(learner->committed(0), 12U);
    EXPECT_EQ(learner->committed(1), 5U);
  }
}

TEST(Learner, Float16OverflowIsNeverSilent) {
  ParameterServerOptions options = sum_options();
  options.gradient_type = DType::kFloat16;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = attach(*server);
  EXPECT_FAILS(learner->push(std::vector<float>(kPushed, 70'000.0F), next_sample(*learner)),
               StatusCode::kInvalidArgument, "element 0 of the gradient is 70000");
  const std::vector<float> large(kPushed, 40'000.0F);
  ASSERT_OK(learner->push(large, next_sample(*learner)));  // published
  ASSERT_OK(learner->push(large, next_sample(*learner)));  // waits
  EXPECT_FAILS(learner->push(large, next_sample(*learner)), StatusCode::kExhausted,
               "may leave the range of float16");
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  ASSERT_OK(learner->push(large, next_sample(*learner)));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[5], -120'000.0F);
}

TEST(Learner, RejectsANonFiniteGradientBeforeAnythingIsCommitted) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  std::vector<float> gradient(kPushed, 1.0F);
  ASSERT_OK(learner->push(gradient, {.begin = 0, .end = 4}));
  ASSERT_OK(learner->push(gradient, {.begin = 4, .end = 8}));  // waits unpublished
  gradient[17] = std::nanf("");
  EXPECT_FAILS(learner->push(gradient, {.begin = 8, .end = 12}), StatusCode::kInvalidArgument,
               "element 17 of the gradient is nan");
  gradient[17] = std::numeric_limits<float>::infinity();
  ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(0s)));
  std::copy(gradient.begin(), gradient.end(), slot.begin());
  EXPECT_FAILS(learner->push(Gradient::slot(), {.begin = 8, .end = 12}),
               StatusCode::kInvalidArgument, "inf");
  gradient[17] = 1;
  ASSERT_OK(learner->push(gradient, {.begin = 8, .end = 12}));
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[17], -3.0F);
  EXPECT_EQ(server->stats().partitions[0].samples, 12U);
}

TEST(Learner, SkipsANonFiniteGradientAndCountsItsSamples) {
  ParameterServerOptions options = sum_options();
  options.non_finite = NonFinite::kSkip;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = attach(*server);
  std::vector<float> bad(kPushed, 1.0F);
  bad[3] = -std::numeric_limits<float>::infinity();
  const std::vector<float> good(kPushed, 2.0F);
  // Skips mini-batches alone, and then together with good ones.
  uint64_t sample = 0;
  for (const std::vector<float>* gradient :
       std::initializer_list<const std::vector<float>*>{&bad, &bad, &good, &bad, &good}) {
    ASSERT_OK_AND_ASSIGN(const PushResult pushed,
                         learner->push(*gradient, {.begin = sample, .end = sample + 1}));
    EXPECT_EQ(pushed == PushResult::kSkipped, gradient == &bad);
    ++sample;
  }
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[3], -4.0F);
  const ParameterServerStats stats = server->stats();
  EXPECT_EQ(stats.partitions[0].samples, 5U);
  EXPECT_EQ(stats.learners[0].skipped, 3U);
  EXPECT_EQ(stats.learners[0].mini_batches, 2U);
}

// Skipped samples are published from the buffer to which the caller writes.
TEST(Learner, FlushBetweenSlotAndPushKeepsTheGradient) {
  ParameterServerOptions options = sum_options();
  options.non_finite = NonFinite::kSkip;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  const std::vector<float> bad(kPushed, std::nanf(""));
  ASSERT_OK(learner->push(ones, {.begin = 0, .end = 1}));  // published
  ASSERT_OK(learner->push(bad, {.begin = 1, .end = 2}));   // skipped, waits
  ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(60s)));
  fill(slot, 3);
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  ASSERT_OK(learner->push(Gradient::slot(), {.begin = 2, .end = 3}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -4.0F);
  EXPECT_EQ(server->weights()[kPushed - 1], -4.0F);
  EXPECT_EQ(server->stats().partitions[0].samples, 3U);
}

TEST(Learner, AcceptsNonFiniteGradientsWhenToldSo) {
  ParameterServerOptions options = sum_options();
  options.non_finite = NonFinite::kAccept;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  auto learner = attach(*server);
  std::vector<float> gradient(kPushed, 1.0F);
  gradient[0] = std::nanf("");
  ASSERT_OK(learner->push(gradient, next_sample(*learner)));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_TRUE(std::isnan(server->weights()[0]));
}

TEST(Learner, ClipsEachMiniBatchByItsNorm) {
  ParameterServerOptions options = sum_options();
  options.parameters = 2;
  options.clip_norm = 5;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = attach(*server);
  // A gradient of norm 50 becomes (3, 4).
  ASSERT_OK(learner->push(std::vector<float>{30, 40}, next_sample(*learner)));
  ASSERT_OK(learner->push(std::vector<float>{0.5F, 0}, next_sample(*learner)));
  ASSERT_OK(learner->push(std::vector<float>{0, 10}, next_sample(*learner)));  // added up: (0, 5)
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_FLOAT_EQ(server->weights()[0], -3.5F);
  EXPECT_FLOAT_EQ(server->weights()[1], -9.0F);
}

TEST(Learner, ClampsElements) {
  ParameterServerOptions options = sum_options();
  options.parameters = 3;
  options.clip_value = 1;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  auto learner = attach(*server);
  ASSERT_OK(learner->push(std::vector<float>{-7, 0.25F, 3}, next_sample(*learner)));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], 1);
  EXPECT_EQ(server->weights()[1], -0.25F);
  EXPECT_EQ(server->weights()[2], -1);
}

TEST(Learner, RefusesSamplesThatAreCommittedAlready) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  ASSERT_OK(server->start());
  const std::vector<float> ones(kPushed, 1.0F);
  {
    auto learner = attach(*server, 1);
    ASSERT_OK(learner->push(ones, {.partition = 2, .begin = 0, .end = 8}));
    EXPECT_FAILS(learner->push(ones, {.partition = 2, .begin = 4, .end = 12}),
                 StatusCode::kInvalidArgument, "before 8");
  }
  auto successor = attach(*server, 2);
  EXPECT_EQ(successor->committed(2), 8U);
  EXPECT_FAILS(successor->push(ones, {.partition = 2, .begin = 7, .end = 9}),
               StatusCode::kInvalidArgument, "committed()");
  EXPECT_FAILS(successor->push(ones, {.partition = 99, .begin = 0, .end = 1}),
               StatusCode::kInvalidArgument, "partitions");
  EXPECT_FAILS(successor->push(ones, {.partition = 2, .begin = 9, .end = 8}),
               StatusCode::kInvalidArgument, "begins before");
  ASSERT_OK(successor->push(ones, {.partition = 2, .begin = 8, .end = 9}));
}

TEST(Learner, MoreRangesThanAGradientCanNameAreExhausted) {
  ParameterServerOptions options = sum_options();
  options.ranges_max = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  for (const uint64_t begin : {0, 10, 20}) {  // the first is published, two wait
    ASSERT_OK(learner->push(ones, {.begin = begin, .end = begin + 1}));
  }
  ASSERT_OK(learner->push(ones, {.begin = 21, .end = 22}));  // a neighbour needs no room
  EXPECT_FAILS(learner->push(ones, {.begin = 30, .end = 31}), StatusCode::kExhausted, "ranges_max");
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  ASSERT_OK(learner->push(ones, {.begin = 30, .end = 31}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -5.0F);
}

TEST(Learner, NewIncarnationGoesOnBehindWhatWasPublished) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  const std::vector<float> ones(kPushed, 1.0F);
  {
    auto learner = attach(*server, 3);
    ASSERT_OK(learner->push(ones, {.begin = 0, .end = 5}));
    ASSERT_OK(learner->push(ones, {.begin = 5, .end = 9}));  // never published: void
  }
  auto again = attach(*server, 3);
  EXPECT_EQ(again->committed(0), 5U);  // not in the ledger yet: read from the slot
  ASSERT_OK(again->push(ones, {.begin = 5, .end = 9}));
  ASSERT_OK(server->start());
  ASSERT_OK(again->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -2.0F);
  EXPECT_EQ(server->stats().learners[0].incarnation, 2U);
  EXPECT_EQ(server->stats().partitions[0].samples, 9U);
}

TEST(Learner, SlotsRunOutAndComeBack) {
  ParameterServerOptions options = sum_options();
  options.learners_max = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto first = attach(*server);
  auto second = attach(*server);
  EXPECT_NE(first->slot(), second->slot());
  EXPECT_FAILS(Learner::attach(*server, deadline_in(5ms)), StatusCode::kExhausted, "learners_max");
  EXPECT_FAILS(Learner::attach(*server, deadline_in(5ms), {.slot = 0}), StatusCode::kConflict,
               "living learner");
  EXPECT_FAILS(Learner::attach(*server, deadline_in(5ms), {.slot = 2}),
               StatusCode::kInvalidArgument, "slot 2");
  first.reset();
  EXPECT_EQ(attach(*server)->slot(), 0);
}

TEST(Learner, DetachedLearnerRefusesToWork) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  ASSERT_OK(server->start());
  auto learner = attach(*server);
  ASSERT_OK(learner->detach(deadline_in(60s)));
  EXPECT_FAILS(learner->gradient_slot(deadline_in(1s)), StatusCode::kCancelled, "attach again");
  EXPECT_FAILS(learner->detach(deadline_in(1s)), StatusCode::kCancelled, "attach again");
}

TEST(Learner, WrongSizesAndOrdersAreMistakes) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  std::vector<float> small(3);
  EXPECT_FAILS(learner->push(small, next_sample(*learner)), StatusCode::kInvalidArgument,
               "1500 parameters");
  EXPECT_FAILS(learner->pull(small), StatusCode::kInvalidArgument, "1500");
  EXPECT_FAILS(learner->push(Gradient::slot(), next_sample(*learner)), StatusCode::kInvalidArgument,
               "gradient_slot()");
}

TEST(Learner, EndedServerCancelsAndTakesNothingMore) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  ASSERT_OK(server->start());
  auto learner = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  ASSERT_OK(learner->push(ones, {.begin = 0, .end = 1}));
  ASSERT_OK(server->stop());
  EXPECT_FAILS(learner->push(ones, {.begin = 1, .end = 2}), StatusCode::kCancelled, "has ended");
  EXPECT_EQ(server->weights()[0], -1.0F);  // all that was published is folded
  EXPECT_EQ(server->stats().partitions[0].committed, 1U);
}

// SSP: no learner is more than the bound ahead of the slowest. The fast one waits, not the slow
// one.
TEST(Learner, StaleSynchronousLearnerWaitsForTheSlowest) {
  ParameterServerOptions options = sum_options();
  options.synchrony = Synchrony::kStale;
  options.staleness = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  auto fast = attach(*server);
  auto slow = attach(*server);
  const std::vector<float> ones(kPushed, 1.0F);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(fast->begin_mini_batch(deadline_in(60s)));
    ASSERT_OK(fast->push(ones, next_sample(*fast)));
  }
  EXPECT_FAILS(fast->begin_mini_batch(deadline_in(10ms)), StatusCode::kTimeout, "bound is 2");
  ASSERT_OK(slow->begin_mini_batch(deadline_in(60s)));
  ASSERT_OK(slow->push(ones, next_sample(*slow)));
  ASSERT_OK(fast->begin_mini_batch(deadline_in(60s)));  // slow is at 1, fast at 3
  EXPECT_GE(fast->stats().waits, 1U);                   // two, unless the fold came first
  ASSERT_OK(fast->push(ones, next_sample(*fast)));
  ASSERT_OK(slow->detach(deadline_in(60s)));  // a learner that leaves delays no other
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(fast->begin_mini_batch(deadline_in(60s)));
    ASSERT_OK(fast->push(ones, next_sample(*fast)));
  }
  ASSERT_OK(fast->flush(deadline_in(60s)));
  auto late = attach(*server);  // a newcomer starts at the folded gradients of the others
  ASSERT_OK(late->begin_mini_batch(deadline_in(60s)));
  ASSERT_OK(fast->begin_mini_batch(deadline_in(60s)));
}

// BSP: all learners see the same weights in each round, and a round is one step with the mean.
TEST(Learner, BulkSynchronousLearnersSeeTheSameWeightsInEveryRound) {
  constexpr int kLearners = 3;
  constexpr int kRounds = 300;
  ParameterServerOptions options = sum_options();
  options.synchrony = Synchrony::kBulk;
  options.threads = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  std::vector<std::unique_ptr<Learner>> learners;
  for (int t = 0; t < kLearners; ++t) learners.push_back(attach(*server, t));
  ASSERT_OK(server->start());
  std::vector<std::vector<float>> seen(kLearners);
  std::vector<std::thread> threads;
  for (int t = 0; t < kLearners; ++t) {
    threads.emplace_back([&, t] {
      Learner& learner = *learners[static_cast<size_t>(t)];
      std::vector<float> weights(kPushed);
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_OK_AND_ASSIGN(auto slot, learner.gradient_slot(deadline_in(60s)));
        ASSERT_OK(learner.pull(weights));
        ASSERT_EQ(weights.front(), weights.back());
        seen[static_cast<size_t>(t)].push_back(weights.front());
        fill(slot, static_cast<float>(3 * (t - 1) + 3));  // 0, 3, 6: mean 3
        ASSERT_OK(learner.push(Gradient::slot(), next_sample(learner)));
      }
      ASSERT_OK(learner.detach(deadline_in(60s)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kLearners; ++t) {
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_EQ(seen[static_cast<size_t>(t)][static_cast<size_t>(round)],
                -3.0F * static_cast<float>(round));
    }
  }
}

TEST(Learner, LivePointerSeesWhatIsFolded) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(sum_options()));
  auto learner = attach(*server);
  EXPECT_EQ(learner->live_weights().size(), kPushed);
  EXPECT_EQ(learner->live_weights()[0], 0);
}

}  // namespace
}  // namespace ffdl
