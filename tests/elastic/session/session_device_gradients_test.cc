#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "elastic/participants/gradient_noise_of.h"
#include "elastic/sessions_on_devices.h"
#include "ffdl/tuning/gradient_noise.h"

// Tests sessions with gradients in a device's memory.
namespace ffdl {
namespace {

using testing::DeviceModel;
using testing::GuardedDevice;
using testing::LateStream;

class DeviceGradients : public testing::SessionsOnDevices {};

// A share in equal parts has the mean of its parts, to the last bit.
TEST_F(DeviceGradients, SharesComeInParts) {
  std::vector<std::vector<float>> states;
  for (const uint64_t parts : {1U, 2U, 4U}) {
    const auto stream = std::make_shared<LateStream>();
    DeviceModel model(stream);
    store_ = open_store("mem://", system_runtime()).value();
    ASSERT_OK_AND_ASSIGN(const auto session, open(options_of({.id = "a"}, stream), model, stream));
    for (uint64_t step = 0; step < 3; ++step) {
      const bool is_dropped = step == 1;  // and keeps nothing of it
      for (uint64_t part = 0; part < parts; ++part) {
        model.compute_half(step, 0);
        model.compute_half(step, 1);
        if (parts > 1) ASSERT_OK(session->add_micro_batch(8 / parts));
      }
      ASSERT_OK(session->end_step(is_dropped ? 0 : 8));
    }
    states.push_back(model.copy());
    ASSERT_OK(session->finish());
  }
  EXPECT_TRUE(states[1] == states[0]);
  EXPECT_TRUE(states[2] == states[0]);
}

// Any number of workers have the bits of one worker.
TEST_F(DeviceGradients, MicroBatchesHaveTheBitsOfAnyNumberOfMembers) {
  constexpr uint64_t kMicroBatches = 5;
  std::vector<std::vector<float>> states;
  const std::pair<Backend, int> worlds[] = {
      {Backend::kNccl, 1}, {Backend::kNccl, 2}, {Backend::kNccl, 3}, {Backend::kDeviceShm, 2}};
  for (const auto& world : worlds) {
    backend_ = world.first;
    const int members = world.second;
    store_ = open_store("mem://", system_runtime()).value();
    std::vector<std::vector<float>> of_members(static_cast<size_t>(members));
    std::vector<std::thread> threads;
    for (int i = 0; i < members; ++i) {
      threads.emplace_back([&, i] {
        const auto stream = std::make_shared<LateStream>();
        DeviceModel model(stream);
        SessionOptions options = options_of(
            {.id = std::string(1, static_cast<char>('a' + i)), .min_workers = members}, stream);
        options.micro_batch_samples = 4;
        options.micro_batch_shares = [members] { return even_shares(kMicroBatches, members); };
        auto opened = open(options, model, stream);
        ASSERT_OK(opened);
        Session& session = **opened;
        const std::vector<uint64_t> shares = even_shares(kMicroBatches, members);
        for (uint64_t step = 0; step < 3; ++step) {
          const auto rank = static_cast<size_t>(session.world().rank);
          uint64_t begin = 0;
          for (size_t before = 0; before < rank; ++before) begin += shares[before];
          uint64_t samples = 0;
          for (uint64_t number = begin; number < begin + shares[rank]; ++number) {
            const uint64_t of_this = number == kMicroBatches - 1 ? 3 : 4;  // the last one is short
            model.compute_half(step * kMicroBatches + number, 0);
            model.compute_half(step * kMicroBatches + number, 1);
            ASSERT_OK(session.add_micro_batch(of_this));
            samples += of_this;
          }
          ASSERT_OK(session.end_step(samples));
        }
        of_members[static_cast<size_t>(i)] = model.copy();
        EXPECT_OK(session.finish());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& state : of_members) states.push_back(state);
  }
  for (const auto& state : states) EXPECT_TRUE(state == states[0]);
}

// Uses gradients 3 of four samples and 11 of one sample, which is no whole micro-batch.
TEST_F(DeviceGradients, TheMeanOfMicroBatchesIsOverSamples) {
  const auto stream = std::make_shared<LateStream>();
  DeviceModel model(stream);
  SessionOptions options = options_of({.id = "a"}, stream);
  options.micro_batch_samples = 4;
  options.micro_batch_shares = [] { return std::vector<uint64_t>{2}; };
  ASSERT_OK_AND_ASSIGN(const auto session, open(options, model, stream));
  model.fill_gradient(3);
  ASSERT_OK(session->add_micro_batch(4));
  model.fill_gradient(11);
  ASSERT_OK(session->add_micro_batch(1));
  ASSERT_OK(session->end_step(5));
  EXPECT_FLOAT_EQ(model.gradient(), (4 * 3 + 11) / 5.0F);
  EXPECT_OK(session->finish());
}

// Uses gradients 4 and 6 of two steps of 8 samples, for which a copy is kept.
TEST_F(DeviceGradients, TheNoiseIsMeasuredByAMemberThatIsAlone) {
  const auto stream = std::make_shared<LateStream>();
  DeviceModel model(stream);
  GuardedDevice device(stream);
  ASSERT_OK_AND_ASSIGN(const auto noise,
                       elastic::gradient_noise_of(
                           {.gradients = model.gradients(), .interval = 1, .device = 0}, &device));
  SessionOptions options = options_of({.id = "a"}, stream);
  options.participants = {noise.get()};
  ASSERT_OK_AND_ASSIGN(const auto session, open(options, model, stream));
  for (const float value : {4.0F, 6.0F}) {
    model.fill_gradient(value);
    ASSERT_OK(session->end_step(8));
  }
  EXPECT_EQ(noise->noise_scale().measurements, 1U);
  EXPECT_DOUBLE_EQ(noise->noise_scale().variance, 4.0 / 2 * 8 * DeviceModel::kSize);
  EXPECT_OK(session->finish());
}

// Uses gradients 4 and 12 of 1 and 3 samples in every element: the mean is 10.
TEST_F(DeviceGradients, TheNoiseOfGradientsIsMeasured) {
  std::vector<NoiseScale> measured(2);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back([this, &measured, i] {
      const auto stream = std::make_shared<LateStream>();
      DeviceModel model(stream);
      GuardedDevice device(stream);
      auto noise = elastic::gradient_noise_of(
          {.gradients = model.gradients(), .interval = 1, .device = 0}, &device);
      ASSERT_OK(noise);
      SessionOptions options = options_of({.id = i == 0 ? "a" : "b", .min_workers = 2}, stream);
      options.participants = {noise->get()};
      auto opened = open(options, model, stream);
      ASSERT_OK(opened);
      const uint64_t samples = 2 * i + 1;
      model.fill_gradient(static_cast<float>(4 * samples));
      ASSERT_OK((*opened)->end_step(samples));
      measured[i] = (*noise)->noise_scale();
      EXPECT_OK((*opened)->finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(measured[0], measured[1]);
  EXPECT_EQ(measured[0].measurements, 1U);
  // (1 * 16 + 3 * 144) / 4 = 112 beside 10^2: (112 - 100) * 4 for each element.
  EXPECT_DOUBLE_EQ(measured[0].variance, 48.0 * DeviceModel::kSize);
}

}  // namespace
}  // namespace ffdl
