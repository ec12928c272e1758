#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/api/interruptible_store.h"
#include "elastic/session/session_impl.h"
#include "support/device_shm.h"
#include "support/fake_nccl.h"
#include "support/guarded_device.h"
#include "support/programs.h"
#include "support/status_matchers.h"

// Sessions with state and gradients in a device's memory. The processor faults when it touches
// either. The device runs the program's work as late as possible.
namespace ffdl::testing {

// A SmallModel in a device's memory, on its default stream, with a counter in the host's memory.
class DeviceModel : public Trainable {
 public:
  static constexpr size_t kSize = 20'001;

  explicit DeviceModel(std::shared_ptr<LateStream> stream) : stream_(std::move(stream)) {
    std::fill_n(weights_, kSize, 1.0F);
  }

  std::vector<Buffer> state() override {
    return {{memory_.data(), kSize},
            {&applied_, 1, DType::kInt64},
            {memory_.data() + kSize * sizeof(float), kSize}};
  }
  std::vector<Buffer> gradients() override {
    std::byte* const begin = memory_.data() + 2 * kSize * sizeof(float);
    return {{begin, kHalf}, {begin + kHalf * sizeof(float), kSize - kHalf}};
  }
  void apply() override {
    ++applied_;
    stream_->give([this] {
      for (size_t i = 0; i < kSize; ++i) {
        momentum_[i] = 0.9F * momentum_[i] + gradient_[i];
        weights_[i] -= 0.01F * momentum_[i];
      }
    });
  }

  // Computes one of gradients().
  void compute_half(uint64_t position, size_t which) {
    stream_->give([this, position, which] {
      for (size_t i = which * kHalf; i < (which == 0 ? kHalf : kSize); ++i) {
        gradient_[i] = weights_[i] * static_cast<float>((position * 7 + i) % 13) / 13;
      }
    });
  }
  void fill_gradient(float value) {
    stream_->give([this, value] { std::fill_n(gradient_, kSize, value); });
  }
  // Returns the value of all gradient elements, or NaN where they differ.
  float gradient() {
    stream_->wait();
    const bool are_equal = std::all_of(gradient_, gradient_ + kSize,
                                       [this](float value) { return value == gradient_[0]; });
    return are_equal ? gradient_[0] : NAN;
  }
  // Returns a copy of the state in the host's memory.
  std::vector<float> copy() {
    stream_->wait();
    std::vector<float> all(weights_, weights_ + 2 * kSize);
    all.push_back(static_cast<float>(applied_));
    return all;
  }

 private:
  static constexpr size_t kHalf = kSize / 2;

  const std::shared_ptr<LateStream> stream_;
  const GuardedMemory memory_{3 * kSize * sizeof(float)};
  // The address by which the device's work reaches the weights.
  float* const weights_ = static_cast<float*>(GuardedMemory::reach(memory_.data()));
  float* const momentum_ = weights_ + kSize;
  float* const gradient_ = momentum_ + kSize;
  int64_t applied_ = 0;
};

// The state after each of the newest steps, equal at all members.
class StatesOfSteps {
 public:
  void note(uint64_t step, const std::vector<float>& state) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = states_.emplace(step, state);
    EXPECT_TRUE(is_new || known->second == state) << "two states of step " << step;
    // A waiting test trains on for any time, so old steps are dropped.
    if (states_.size() > kStepsMax) states_.erase(states_.begin());
  }
  std::vector<float> at(uint64_t step) {
    const std::lock_guard lock(mutex_);
    return states_.at(step);
  }
  // Keeps the states of this step and forgets the others.
  void keep(uint64_t step) {
    const std::lock_guard lock(mutex_);
    std::erase_if(states_, [step](const auto& state) { return state.first != step; });
  }
  uint64_t first() {
    const std::lock_guard lock(mutex_);
    return states_.begin()->first;
  }

 private:
  static constexpr size_t kStepsMax = 100;

  std::mutex mutex_;
  std::map<uint64_t, std::vector<float>> states_;
};

// Runs members as threads of this process.
class SessionsOnDevices : public ::testing::Test {
 protected:
  explicit SessionsOnDevices(GpuWorlds gpu_worlds = GpuWorlds::kFresh,
                             const char* library = kFakeNccl)
      : gpu_worlds_(gpu_worlds), library_(library) {
    fake_.reach = &GuardedMemory::reach;
  }
  ~SessionsOnDevices() override {
    fake_.reach = nullptr;
    EXPECT_EQ(fake_.misused, 0) << "calls after which NCCL hangs";
  }

  using Communicators = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
  struct Worker {
    std::string id{};
    int min_workers = 1;
    Duration lease = std::chrono::seconds(15);  // a busy machine keeps it alive
    uint64_t samples = 4;
    bool begins_early = false;
    bool dies = false;  // at once, without finish()
    CheckpointOptions checkpoints{};
    Communicators wrap = [](std::unique_ptr<Communicator> made) { return made; };
    // Ends the member by false.
    std::function<bool(Session&, StepResult)> after_step{};
  };

  // Returns the options of one member. `stream` is the default stream of its device.
  SessionOptions options_of(const Worker& worker, std::shared_ptr<LateStream> stream) {
    SessionOptions options;
    options.self.id = worker.id;
    options.membership.min_workers = worker.min_workers;
    options.membership.heartbeat = std::chrono::milliseconds(50);
    options.membership.lease = worker.lease;
    options.membership.gather = std::chrono::milliseconds(50);
    options.verify_state = true;
    options.checkpoints = worker.checkpoints;
    if (worker.begins_early) options.bucket_bytes = 4;
    options.communicator.backend = backend_;
    options.communicator.device = 0;
    options.connect = [this, wrap = worker.wrap, stream = std::move(stream)](
                          const World& world, Time deadline,
                          const ConnectWatch& watch) -> Result<std::unique_ptr<Communicator>> {
      const std::function<Status()>& look = watch.interrupt_check;
      const auto is_connecting = std::make_shared<std::atomic<bool>>(true);
      const auto looks = [&look, is_connecting] { return *is_connecting ? look() : Status(); };
      auto device = std::make_unique<GuardedDevice>(stream);
      comm::InterruptibleStore store(*store_,
                                     look);  // a session that ends does not wait for others
      auto made = backend_ == Backend::kDeviceShm
                      ? connect_device_shm(world, store, deadline, std::move(device), looks)
                      : connect_nccl(world, store, deadline, fake_nccl(library_), std::move(device),
                                     looks, gpu_worlds_);
      *is_connecting = false;
      FFDL_RETURN_IF_ERROR(made.status());
      return wrap(std::move(made).value());
    };
    return options;
  }
  Result<std::unique_ptr<Session>> open(const SessionOptions& options, DeviceModel& model,
                                        const std::shared_ptr<LateStream>& stream) {
    return Session::Impl::make(options, model, *store_, system_runtime(),
                               std::make_unique<GuardedDevice>(stream));
  }

  std::thread start(const Worker& worker) {
    return std::thread([this, worker] { EXPECT_OK(run(worker)); });
  }
  Status run(const Worker& worker) {
    const auto stream = std::make_shared<LateStream>();
    DeviceModel model(stream);
    FFDL_ASSIGN_OR_RETURN(const auto session, open(options_of(worker, stream), model, stream));
    states_.note(session->step(), model.copy());
    while (true) {
      model.compute_half(session->step(), 0);
      if (worker.begins_early) FFDL_RETURN_IF_ERROR(session->begin_average(1, worker.samples));
      model.compute_half(session->step(), 1);
      FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(worker.samples));
      const bool goes_on = result != StepResult::kLeft && worker.after_step(*session, result);
      // The others may repeat the last step of a dead member with other samples.
      if (!goes_on && worker.dies) return report_death(*store_, "job", session->self());
      // A task that sends the state must not be disturbed: reading the state makes the device do
      // its late work.
      const bool may_look = result != StepResult::kRetryStep && result != StepResult::kWorldChanged;
      if (may_look) states_.note(session->step(), model.copy());
      if (result == StepResult::kLeft) return {};
      if (!goes_on) return session->finish();
    }
  }
  // Runs `members` members from the present step of the job until step `until`.
  void run_together(int members, uint64_t until, const CheckpointOptions& checkpoints = {}) {
    std::vector<std::thread> threads;
    for (int i = 0; i < members; ++i) {
      threads.push_back(start({.id = std::string(1, static_cast<char>('a' + i)),
                               .min_workers = members,
                               .samples = static_cast<uint64_t>(i + 1),
                               .checkpoints = checkpoints,
                               .after_step = [until](Session& session, StepResult) {
                                 return session.step() < until;
                               }}));
    }
    for (std::thread& thread : threads) thread.join();
  }

  const GpuWorlds gpu_worlds_;
  const char* const library_;
  Backend backend_ = Backend::kNccl;
  FakeNccl& fake_ = fresh_fake_nccl(library_);
  std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  StatesOfSteps states_;
};

}  // namespace ffdl::testing
