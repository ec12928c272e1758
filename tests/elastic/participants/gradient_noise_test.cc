#include "ffdl/tuning/gradient_noise.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "elastic/participants/gradient_noise_of.h"
#include "ffdl/session.h"
#include "support/host_device.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr size_t kDimensions = 40;
constexpr float kMean = 0.5F;
constexpr double kNorm = kDimensions * 0.25;
constexpr double kVariance = kDimensions;  // variance of one sample: each element has 1

// A member as its session treats it.
struct Trainee {
  std::vector<float> gradient = std::vector<float>(kDimensions);
  std::unique_ptr<GradientNoise> noise;

  explicit Trainee(uint64_t interval, base::DeviceSide* device = nullptr) {
    GradientNoiseOptions options;
    options.gradients = {{gradient.data(), kDimensions}};
    options.interval = interval;
    options.smoothing = 0.999;
    if (device != nullptr) options.device = 0;
    noise = *elastic::gradient_noise_of(options, device);
  }
};

// Plays the session's part.
class Team {
 public:
  explicit Team(int members, uint64_t interval = 1, base::DeviceSide* device = nullptr) {
    for (int i = 0; i < members; ++i) {
      members_.push_back(std::make_unique<Trainee>(interval, device));
    }
    tell_world();
  }

  void step(std::vector<uint64_t> samples) {
    std::vector<std::byte> records;
    std::vector<float> mean(kDimensions);
    uint64_t all = 0;
    for (const uint64_t share : samples) all += share;
    for (size_t i = 0; i < members_.size(); ++i) {
      draw(members_[i]->gradient, samples[i]);
      std::array<std::byte, sizeof(double)> record{};
      members_[i]->noise->write_record(record);
      records.insert(records.end(), record.begin(), record.end());
      if (samples[i] == 0) continue;
      const auto weight = static_cast<float>(samples[i]) / static_cast<float>(all);
      for (size_t j = 0; j < kDimensions; ++j) mean[j] += weight * members_[i]->gradient[j];
    }
    ++step_;
    for (const auto& member : members_) {
      if (all > 0) {
        member->gradient = mean;
        member->noise->averaged();
      }
      member->noise->applied(step_, StepRecords(records, sizeof(double), sizeof(double), samples));
    }
  }
  void join() {
    auto newcomer = std::make_unique<Trainee>(1);
    ASSERT_OK(newcomer->noise->restore(members_.front()->noise->save()));
    members_.push_back(std::move(newcomer));
    tell_world();
  }
  void leave() {
    members_.pop_back();
    tell_world();
  }
  NoiseScale noise_scale() const {
    for (const auto& member : members_) {
      EXPECT_EQ(member->noise->noise_scale(), members_.front()->noise->noise_scale());
      EXPECT_EQ(member->noise->save(), members_.front()->noise->save());
    }
    return members_.front()->noise->noise_scale();
  }

 private:
  void tell_world() {
    World world;
    world.members.resize(members_.size());
    for (const auto& member : members_) member->noise->world_changed(world);
  }
  // A member without samples may hold any values.
  void draw(std::vector<float>& gradient, uint64_t samples) {
    std::normal_distribution<float> normal(kMean, 1 / std::sqrt(static_cast<float>(samples)));
    for (float& element : gradient) element = samples > 0 ? normal(random_) : std::nanf("");
  }

  std::mt19937 random_{3};
  std::vector<std::unique_ptr<Trainee>> members_;
  uint64_t step_ = 0;
};

void expect_true_noise(const NoiseScale& noise) {
  EXPECT_NEAR(noise.variance / kVariance, 1, 0.1);
  EXPECT_NEAR(noise.squared_norm / kNorm, 1, 0.1);
  EXPECT_NEAR(noise.value() / (kVariance / kNorm), 1, 0.2);
}

TEST(GradientNoise, OfSeveralMembersWithUnequalShares) {
  Team team(3);
  for (int i = 0; i < 1500; ++i) team.step({8, 3, 5});
  expect_true_noise(team.noise_scale());
  EXPECT_EQ(team.noise_scale().measurements, 1500U);
}

TEST(GradientNoise, OfOneThatIsAloneByPairsOfSteps) {
  Team team(1);
  for (int i = 0; i < 1500; ++i) team.step({8});
  expect_true_noise(team.noise_scale());
  EXPECT_EQ(team.noise_scale().measurements, 1499U);
}

TEST(GradientNoise, InADevicesMemoryItIsTheSame) {
  testing::HostDevice device;
  for (const int members : {1, 3}) {
    Team here(members);
    Team there(members, 1, &device);
    for (int i = 0; i < 20; ++i) {
      const std::vector<uint64_t> samples(static_cast<size_t>(members), 8);
      here.step(samples);
      there.step(samples);
      EXPECT_EQ(there.noise_scale(), here.noise_scale());
    }
  }
}

// A device whose kernels fail after a while.
class FailingDevice final : public testing::HostDevice {
 public:
  Status run(const base::ArrayWork& work, base::DeviceStream stream) override {
    if (fails) return Status(StatusCode::kInternal, "an illegal address");
    return HostDevice::run(work, stream);
  }
  bool fails = false;
};

TEST(GradientNoise, ADeviceThatFailsIsSaidAndMeasuresNothing) {
  FailingDevice device;
  Trainee member(1, &device);
  EXPECT_TRUE(member.noise->reads_gradients_on_device());
  EXPECT_FALSE(Trainee(1).noise->reads_gradients_on_device());
  World world;
  world.members.resize(2);
  member.noise->world_changed(world);
  EXPECT_OK(member.noise->life_status());
  device.fails = true;
  double told = 0;
  member.noise->write_record(std::as_writable_bytes(std::span(&told, 1)));
  EXPECT_TRUE(std::isnan(told));
  EXPECT_FAILS(member.noise->life_status(), StatusCode::kInternal,
               "measure the noise of gradients: an illegal address");
  float gradient = 0;
  GradientNoiseOptions options;
  options.gradients = {{&gradient, 1}};
  options.device = 0;
  EXPECT_EQ(elastic::gradient_noise_of(options, &device).status().code(), StatusCode::kInternal);
}

TEST(GradientNoise, EachIntervalOnce) {
  Team team(2, 10);
  for (int i = 0; i < 95; ++i) team.step({4, 4});
  EXPECT_EQ(team.noise_scale().measurements, 9U);
  Team alone(1, 10);
  for (int i = 0; i < 95; ++i) alone.step({4});
  EXPECT_EQ(alone.noise_scale().measurements, 9U);
}

TEST(GradientNoise, NothingFromStepsThatCannotTell) {
  Team team(2);
  for (int i = 0; i < 5; ++i) team.step({8, 0});
  for (int i = 0; i < 5; ++i) team.step({0, 0});
  EXPECT_EQ(team.noise_scale(), NoiseScale{});
  Team alone(1);
  alone.step({8});
  alone.step({6});  // other samples than in the step before
  alone.step({0});
  alone.step({6});
  EXPECT_EQ(alone.noise_scale(), NoiseScale{});
}

TEST(GradientNoise, ComesWithANewcomerAndStaysWhenOthersLeave) {
  Team team(1);
  for (int i = 0; i < 400; ++i) team.step({8});
  team.join();
  for (int i = 0; i < 400; ++i) team.step({8, 8});
  team.leave();
  for (int i = 0; i < 400; ++i) team.step({8});
  expect_true_noise(team.noise_scale());
  EXPECT_EQ(team.noise_scale().measurements, 399U + 400U + 399U);
}

TEST(GradientNoise, StateThatIsNotItsOwnChangesNothing) {
  Team team(2);
  team.step({8, 8});
  float gradient = 0;
  ASSERT_OK_AND_ASSIGN(const auto noise, GradientNoise::create({.gradients = {{&gradient, 1}}}));
  Trainee member(1);
  auto bytes = member.noise->save();
  bytes.back() ^= std::byte{1};
  EXPECT_EQ(noise->restore(bytes).code(), StatusCode::kCorrupt);
  EXPECT_EQ(noise->restore({}).code(), StatusCode::kCorrupt);
  EXPECT_EQ(noise->noise_scale(), NoiseScale{});
}

TEST(GradientNoise, RefusesWhatMakesNoSense) {
  EXPECT_FAILS(GradientNoise::create({}), StatusCode::kInvalidArgument,
               "measure the noise of gradients: there are none");
  int32_t integer = 0;
  GradientNoiseOptions integers;
  integers.gradients = {{&integer, 1, DType::kInt32}};
  EXPECT_EQ(GradientNoise::create(integers).status().code(), StatusCode::kInvalidArgument);
  GradientNoiseOptions never;
  never.interval = 0;
  EXPECT_EQ(GradientNoise::create(never).status().code(), StatusCode::kInvalidArgument);
  GradientNoiseOptions frozen;
  frozen.smoothing = 1;
  EXPECT_EQ(GradientNoise::create(frozen).status().code(), StatusCode::kInvalidArgument);
  GradientNoiseOptions none;
  none.block_stride = 0;
  EXPECT_EQ(GradientNoise::create(none).status().code(), StatusCode::kInvalidArgument);
}

// The gradient of each member is its number at first. The session averages it, and apply()
// overwrites it.
class Spoiler final : public Trainable {
 public:
  std::vector<Buffer> state() override { return {{&weight_, 1}}; }
  std::vector<Buffer> gradients() override { return {{&gradient, 1}}; }
  void apply() override {
    weight_ += gradient;
    gradient = 1e9F;  // as a model that clips in place
  }
  float gradient = 0;

 private:
  float weight_ = 0;
};

// The member would have other numbers than the others.
TEST(GradientNoise, ADeviceThatFailsEndsTheSessionOfItsMember) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  FailingDevice device;
  Spoiler model;
  GradientNoiseOptions options;
  options.gradients = model.gradients();
  options.interval = 1;
  options.device = 0;
  ASSERT_OK_AND_ASSIGN(const auto noise, elastic::gradient_noise_of(options, &device));
  SessionOptions session_options;
  session_options.self.id = "a";
  session_options.membership.lease = 15s;
  session_options.participants = {noise.get()};
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(session_options, model, *store));
  ASSERT_OK(session->end_step(1));
  device.fails = true;
  EXPECT_FAILS(session->end_step(1), StatusCode::kInternal, "an illegal address");
  EXPECT_EQ(session->step(), 1U);
  EXPECT_FALSE(session->life_status().ok());
}

// Uses gradients 1 and 3 of one sample each. The mean is 2, the variance between two samples is 2.
TEST(GradientNoise, SeesTheMeanBeforeItIsApplied) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  std::vector<NoiseScale> measured(2);
  std::vector<std::thread> members;
  for (int i = 0; i < 2; ++i) {
    members.emplace_back([&, i] {
      Spoiler model;
      GradientNoiseOptions options;
      options.gradients = model.gradients();
      options.interval = 1;
      const auto noise = *GradientNoise::create(options);
      SessionOptions session_options;
      session_options.self.id = std::string(1, static_cast<char>('a' + i));
      session_options.membership.min_workers = 2;
      session_options.membership.lease = 15s;
      session_options.participants = {noise.get()};
      ASSERT_OK_AND_ASSIGN(const auto session, Session::open(session_options, model, *store));
      for (int step = 0; step < 3; ++step) {
        model.gradient = i == 0 ? 1 : 3;
        ASSERT_OK(session->end_step(1));
      }
      measured[static_cast<size_t>(i)] = noise->noise_scale();
      ASSERT_OK(session->finish());
    });
  }
  for (std::thread& member : members) member.join();
  EXPECT_EQ(measured[0], measured[1]);
  EXPECT_EQ(measured[0].measurements, 3U);
  EXPECT_NEAR(measured[0].variance, 2, 1e-9);
  EXPECT_NEAR(measured[0].squared_norm, 3, 1e-9);
}

}  // namespace
}  // namespace ffdl
