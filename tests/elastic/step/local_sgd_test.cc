#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

constexpr size_t kSize = 37;
constexpr size_t kFirst = 10;  // of the weights; the others are a second array
constexpr uint64_t kEvery = 5;
constexpr uint64_t kAllSamples = 60;
constexpr uint64_t kEpochs = 3;

using Weights = std::vector<float>;

std::vector<Buffer> in_two(Weights& weights) {
  return {{weights.data(), kFirst}, {weights.data() + kFirst, kSize - kFirst}};
}

// Makes a step of plain SGD towards a point that depends on the sample.
void make_inner_step(Weights& weights, uint64_t sample) {
  for (size_t i = 0; i < kSize; ++i) {
    weights[i] -= 0.1F * (weights[i] - std::sin(static_cast<float>(sample * 3 + i)));
  }
}

// The samples of each round that a member made, by step.
using Rounds = std::map<uint64_t, std::vector<uint64_t>>;

struct Trained {
  Rounds rounds{};
  std::map<uint64_t, Weights> weights{};  // outer ones, after each step
};

Trained train(Store& store, const std::string& id, int workers) {
  Trained trained;
  Weights weights(kSize, 1.0F);
  const auto local = LocalSgd::create(in_two(weights)).value();
  const auto ledger =
      make_session_ledger(
          {.samples = kAllSamples, .partition_samples = 2 * kEvery, .epochs = kEpochs})
          .value();
  SessionOptions options;
  options.self.id = id;
  options.membership = testing::patient(workers);
  options.participants = {ledger->participant()};
  options.verify_state = true;
  const auto session = Session::open(options, *local, store).value();
  while (!ledger->is_done()) {
    local->begin_round();
    const auto ranges = ledger->take(kEvery).value();
    const auto samples = ledger->sample_indices(ranges).value();
    for (const uint64_t sample : samples) make_inner_step(weights, sample);
    local->end_round();
    const auto result = session->end_step();
    EXPECT_OK(result.status());
    if (!result.ok()) return trained;
    trained.rounds[session->step()] = samples;
    local->begin_round();
    trained.weights[session->step()] = weights;
  }
  EXPECT_OK(session->finish());
  return trained;
}

// Returns the outer weights after each step, as algorithm 1 of the paper has them for these rounds.
std::map<uint64_t, Weights> run_diloco(const std::vector<const Rounds*>& members) {
  Weights outer(kSize, 1.0F);
  Weights momentum(kSize);
  std::map<uint64_t, Weights> after;
  for (uint64_t step = 1; step <= members[0]->rbegin()->first; ++step) {
    Weights mean(kSize);
    float samples = 0;
    for (const Rounds* rounds : members) samples += static_cast<float>(rounds->at(step).size());
    for (const Rounds* rounds : members) {
      Weights inner = outer;
      for (const uint64_t sample : rounds->at(step)) make_inner_step(inner, sample);
      const float share = static_cast<float>(rounds->at(step).size()) / samples;
      for (size_t i = 0; i < kSize; ++i) mean[i] += share * (outer[i] - inner[i]);
    }
    for (size_t i = 0; i < kSize; ++i) {
      momentum[i] = 0.9F * momentum[i] + mean[i];
      outer[i] -= 0.7F * (mean[i] + 0.9F * momentum[i]);
    }
    after[step] = outer;
  }
  return after;
}

void expect_near(const std::map<uint64_t, Weights>& left,
                 const std::map<uint64_t, Weights>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [step, weights] : left) {
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(weights[i], right.at(step)[i], 1e-4F) << "step " << step << ", weight " << i;
    }
  }
}

TEST(LocalSgd, OneMemberIsDiLoCo) {
  const auto store = open_store("mem://", system_runtime()).value();
  const Trained alone = train(*store, "a", 1);
  EXPECT_EQ(alone.rounds.size(), kAllSamples * kEpochs / kEvery);
  expect_near(alone.weights, run_diloco({&alone.rounds}));
}

TEST(LocalSgd, TwoMembersAreDiLoCoWithEqualBits) {
  const auto store = open_store("mem://", system_runtime()).value();
  Trained of_a;
  std::thread a([&] { of_a = train(*store, "a", 2); });
  const Trained of_b = train(*store, "b", 2);
  a.join();
  EXPECT_EQ(of_a.weights, of_b.weights);
  expect_near(of_a.weights, run_diloco({&of_a.rounds, &of_b.rounds}));
  std::map<uint64_t, uint64_t> used;
  for (const Rounds* rounds : std::array<const Rounds*, 2>{&of_a.rounds, &of_b.rounds}) {
    for (const auto& [step, samples] : *rounds) {
      for (const uint64_t sample : samples) ++used[sample];
    }
  }
  EXPECT_EQ(used.size(), kAllSamples);
  for (const auto& [sample, times] : used) EXPECT_EQ(times, kEpochs) << sample;
}

TEST(LocalSgd, ARoundThatIsNotAppliedLeavesNoTrace) {
  Weights weights(kSize, 1.0F);
  ASSERT_OK_AND_ASSIGN(const auto local, LocalSgd::create(in_two(weights)));
  make_inner_step(weights, 1);
  local->end_round();
  local->begin_round();
  EXPECT_EQ(weights, Weights(kSize, 1.0F));
}

TEST(LocalSgd, WithoutNesterovItIsMomentum) {
  Weights weights(kSize, 1.0F);
  ASSERT_OK_AND_ASSIGN(const auto local, LocalSgd::create(in_two(weights), {.learning_rate = 0.5F,
                                                                            .momentum = 0.5F,
                                                                            .nesterov = false}));
  for (const float expected : {0.5F, -0.25F}) {  // moved by 0.5 * 1, then by 0.5 * (1 + 0.5)
    local->begin_round();
    for (float& weight : weights) weight -= 1;
    local->end_round();
    local->apply();
    local->begin_round();
    EXPECT_EQ(weights, Weights(kSize, expected));
  }
}

TEST(LocalSgd, StateAndGradientsHaveFixedMemory) {
  Weights weights(kSize, 1.0F);
  ASSERT_OK_AND_ASSIGN(const auto local, LocalSgd::create(in_two(weights)));
  const auto state = local->state();
  ASSERT_EQ(state.size(), 4U);
  EXPECT_EQ(state[0].count, kFirst);
  EXPECT_EQ(state[3].count, kSize - kFirst);
  EXPECT_NE(state[0].data, weights.data());  // inner steps must not change it
  EXPECT_EQ(local->state()[2].data, state[2].data);
  EXPECT_EQ(local->gradients()[0].count, kSize);
}

TEST(LocalSgd, WeightsMayBeAtAnyAddress) {
  std::array<std::byte, 4 * sizeof(float) + 1> memory{};
  const std::array<float, 4> values = {1, 2, 3, 4};
  std::memcpy(memory.data() + 1, values.data(), sizeof values);
  ASSERT_OK_AND_ASSIGN(const auto local,
                       LocalSgd::create(std::vector<Buffer>{{memory.data() + 1, 4}}));
  const std::array<float, 4> moved = {0, 2, 3, 2};
  std::memcpy(memory.data() + 1, moved.data(), sizeof moved);
  local->end_round();
  const auto* gradient = static_cast<const float*>(local->gradients()[0].data);
  EXPECT_EQ(Weights(gradient, gradient + 4), (Weights{1, 0, 0, 2}));
  local->begin_round();
  EXPECT_EQ(std::memcmp(memory.data() + 1, values.data(), sizeof values), 0);
}

TEST(LocalSgd, WrongArgumentsAreRefused) {
  Weights weights(kSize);
  const auto create = [&](const LocalSgdOptions& options) {
    return LocalSgd::create(in_two(weights), options);
  };
  EXPECT_FAILS(create({.learning_rate = 0}), StatusCode::kInvalidArgument, "learning_rate is 0");
  EXPECT_FAILS(create({.learning_rate = std::numeric_limits<float>::infinity()}),
               StatusCode::kInvalidArgument, "learning_rate is inf");
  EXPECT_FAILS(create({.momentum = 1}), StatusCode::kInvalidArgument, "momentum is 1");
  EXPECT_FAILS(create({.momentum = 0}), StatusCode::kInvalidArgument, "nesterov without momentum");
  EXPECT_FAILS(LocalSgd::create(std::vector<Buffer>{}), StatusCode::kInvalidArgument,
               "there are no weights");
  EXPECT_FAILS(LocalSgd::create(std::vector<Buffer>{{nullptr, 3}}), StatusCode::kInvalidArgument,
               "a null pointer");
  EXPECT_FAILS(LocalSgd::create(std::vector<Buffer>{{weights.data(), 3, DType::kInt32}}),
               StatusCode::kInvalidArgument, "array 0 of the weights is of int32; give float32");
}

}  // namespace
}  // namespace ffdl
