#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "elastic/session_impl.h"
#include "ffdl/gradient_noise.h"
#include "support/fake_nccl.h"
#include "support/guarded_device.h"
#include "support/memory_files.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

// Sessions whose state and gradients lie in a device's memory: a processor that touches either is a
// fault, and what the program gave its device is done as late as can be. Members are threads of
// this process, over a made-up NCCL.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::GuardedDevice;
using testing::GuardedMemory;
using testing::LateStream;

// As SmallModel, in a device's memory and by its default stream, but for a counter in the host's.
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

  // One of gradients().
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
  // What all of them are; not a number where they differ.
  float gradient() {
    stream_->wait();
    const bool are_equal = std::all_of(gradient_, gradient_ + kSize,
                                       [this](float value) { return value == gradient_[0]; });
    return are_equal ? gradient_[0] : NAN;
  }
  // The state as a host has it.
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
  // What the device's work knows it by.
  float* const weights_ = static_cast<float*>(GuardedMemory::reach(memory_.data()));
  float* const momentum_ = weights_ + kSize;
  float* const gradient_ = momentum_ + kSize;
  int64_t applied_ = 0;
};

// The state after each step, the same at all members.
class StatesOfSteps {
 public:
  void note(uint64_t step, const std::vector<float>& state) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = states_.emplace(step, state);
    EXPECT_TRUE(is_new || known->second == state) << "two states of step " << step;
  }
  std::vector<float> at(uint64_t step) {
    const std::lock_guard lock(mutex_);
    return states_.at(step);
  }
  // The other ones are forgotten.
  void keep(uint64_t step) {
    const std::lock_guard lock(mutex_);
    std::erase_if(states_, [step](const auto& state) { return state.first != step; });
  }
  uint64_t first() {
    const std::lock_guard lock(mutex_);
    return states_.begin()->first;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::vector<float>> states_;
};

class SessionMemory : public ::testing::Test {
 protected:
  SessionMemory() { fake_.reach = &GuardedMemory::reach; }
  ~SessionMemory() override { fake_.reach = nullptr; }

  using Communicators = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
  struct Worker {
    std::string id{};
    int min_workers = 1;
    uint64_t samples = 4;
    bool begins_early = false;
    bool dies = false;  // at once, instead of finishing
    CheckpointOptions checkpoints{};
    Communicators wrap = [](std::unique_ptr<Communicator> made) { return made; };
    // It ends by false.
    std::function<bool(Session&, StepResult)> after_step{};
  };

  // That of one member, whose device's default stream it is.
  SessionOptions options_of(const Worker& worker, std::shared_ptr<LateStream> stream) {
    SessionOptions options;
    options.self.id = worker.id;
    options.membership.min_workers = worker.min_workers;
    options.membership.heartbeat = 50ms;
    options.membership.lease = 3s;
    options.membership.gather = 50ms;
    options.verify_state = true;
    options.checkpoints = worker.checkpoints;
    if (worker.begins_early) options.bucket_bytes = 4;
    options.communicator.backend = Backend::kNccl;
    options.communicator.device = 0;
    options.connect =
        [this, wrap = worker.wrap, stream = std::move(stream)](
            const World& world, Time deadline,
            const std::function<Status()>& look) -> Result<std::unique_ptr<Communicator>> {
      const auto is_connecting = std::make_shared<std::atomic<bool>>(true);
      auto made = testing::connect_nccl(
          world, *store_, deadline, testing::fake_nccl(), std::make_unique<GuardedDevice>(stream),
          [&look, is_connecting] { return *is_connecting ? look() : Status(); });
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
      // The others may make the last step of who dies again, of other samples.
      if (!goes_on && worker.dies) return report_death(*store_, "job", session->self());
      // Nor while a task gives the state: to look at it has the device do what it is late with.
      const bool may_look = result != StepResult::kRetryStep && result != StepResult::kWorldChanged;
      if (may_look) states_.note(session->step(), model.copy());
      if (result == StepResult::kLeft) return {};
      if (!goes_on) return session->finish();
    }
  }
  // So many members, from where the job is until this step.
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

  testing::FakeNccl& fake_ = testing::fresh_fake_nccl();
  std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  StatesOfSteps states_;
};

TEST_F(SessionMemory, TheMeanIsOverSamplesWhereverTheyAre) {
  std::vector<std::thread> threads;
  const std::map<std::string, uint64_t> samples = {{"a", 1}, {"b", 3}, {"c", 0}};
  for (const auto& [id, count] : samples) {
    threads.emplace_back([this, id = id, count = count] {
      const auto stream = std::make_shared<LateStream>();
      DeviceModel model(stream);
      auto opened = open(options_of({.id = id, .min_workers = 3}, stream), model, stream);
      ASSERT_OK(opened);
      model.fill_gradient(count == 0 ? INFINITY : static_cast<float>(4 * count));
      ASSERT_OK((*opened)->end_step(count));
      EXPECT_EQ(model.gradient(), (1 * 4 + 3 * 12) / 4);
      EXPECT_OK((*opened)->finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The newcomer takes the state while the other trains, and leaves again in order.
TEST_F(SessionMemory, AMemberComesAndLeaves) {
  std::atomic<bool> has_left = false;
  std::atomic<uint64_t> healed = 0;
  std::promise<void> trains;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() == 5) trains.set_value();
                               return !has_left || session.world().size() > 1;
                             }});
  trains.get_future().wait();
  std::thread newcomer =
      start({.id = "b", .samples = 2, .after_step = [&](Session& its, StepResult) {
               healed = its.stats().healed;
               if (its.stats().steps > 5) its.ask_to_leave();
               return true;
             }});
  newcomer.join();
  has_left = true;
  first.join();
  EXPECT_GE(healed, 1U);
}

// Buckets are averaged by a task, with its own part in scaling them.
TEST_F(SessionMemory, DeathsEndNobodysSession) {
  std::vector<std::thread> threads;
  for (const auto& [id, until] : std::map<std::string, uint64_t>{{"a", 30}, {"b", 20}, {"c", 10}}) {
    threads.push_back(start({.id = id,
                             .samples = until,
                             .begins_early = true,
                             .dies = until < 30,
                             .after_step = [until = until](Session& session, StepResult) {
                               return session.step() < until;
                             }}));
  }
  for (std::thread& thread : threads) thread.join();
}

// Of one sum among three, which has ended well, says that it failed, once another has applied it.
class LostAnswer final : public Communicator {
 public:
  LostAnswer(std::unique_ptr<Communicator> of, std::function<bool()> is_now)
      : of_(std::move(of)), is_now_(std::move(is_now)) {}

  const World& world() const override { return of_->world(); }
  Backend backend() const override { return of_->backend(); }
  Status run(const Operation& operation, Time deadline) override {
    FFDL_RETURN_IF_ERROR(of_->run(operation, deadline));
    const bool is_sum_of_three = operation.kind == Collective::kAllReduce && world().size() == 3;
    if (!is_sum_of_three || !is_now_()) return {};
    return Status(StatusCode::kPeerLost, "the answer is lost");
  }
  void abort(Status why) override { of_->abort(std::move(why)); }

 private:
  const std::unique_ptr<Communicator> of_;
  const std::function<bool()> is_now_;
};

// It has a state that counts, and takes the other's beside it. The third one's end makes a new
// world at once.
TEST_F(SessionMemory, WhoIsAStepBehindIsHealed) {
  std::atomic<uint64_t> step_of_a = 0;
  std::atomic<uint64_t> step_of_b = 0;
  std::atomic<int> sums_left = 5;  // of b, and of c, which are in the same ones
  std::atomic<int> sums_left_of_c = 5;
  std::atomic<uint64_t> end = ~uint64_t{0};
  Worker a = {.id = "a"};
  a.after_step = [&](Session& session, StepResult) {
    step_of_a = session.step();
    return session.step() < end;
  };
  Worker b = {.id = "b"};
  b.wrap = [&](std::unique_ptr<Communicator> made) {
    return std::make_unique<LostAnswer>(std::move(made), [&] {
      if (--sums_left != 0) return false;
      while (step_of_a <= step_of_b) std::this_thread::yield();
      return true;
    });
  };
  b.after_step = [&](Session& session, StepResult result) {
    step_of_b = session.step();
    if (sums_left <= 0 && end == ~uint64_t{0}) {
      EXPECT_EQ(result, StepResult::kHealed);
      end = session.step() + 10;  // the other is one step ahead at most
    }
    return session.step() < end;
  };
  Worker c = {.id = "c", .dies = true};
  c.wrap = [&](std::unique_ptr<Communicator> made) {
    return std::make_unique<LostAnswer>(std::move(made), [&] {
      --sums_left_of_c;
      return false;
    });
  };
  c.after_step = [&](Session& session, StepResult) {
    if (sums_left_of_c > 0) return true;
    while (step_of_a < session.step()) std::this_thread::yield();  // it does not lose that one
    return false;
  };
  std::vector<std::thread> threads;
  for (const Worker& worker : {a, b, c}) threads.push_back(start(worker));
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(end, ~uint64_t{0});
}

// Written from one kind of memory, and read into either.
TEST_F(SessionMemory, CheckpointsAreOfTheDevicesMemory) {
  testing::MemoryFiles files;
  CheckpointOptions checkpoints = {.folder = "/f", .every_steps = 10, .resume = true};
  checkpoints.files = &files;
  run_together(2, 10, checkpoints);
  std::vector<float> weights(DeviceModel::kSize);
  std::vector<float> momentum(DeviceModel::kSize);
  int64_t applied = 0;
  const Buffer host[] = {{weights.data(), weights.size()},
                         {&applied, 1, DType::kInt64},
                         {momentum.data(), momentum.size()}};
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(checkpoints, host));
  EXPECT_EQ(loaded.step, 10U);
  std::vector<float> state = weights;
  state.insert(state.end(), momentum.begin(), momentum.end());
  state.push_back(static_cast<float>(applied));
  EXPECT_TRUE(state == states_.at(10)) << "the same bits";

  store_ = open_store("mem://", system_runtime()).value();  // of a new job
  states_.keep(10);
  run_together(3, 13, checkpoints);
  EXPECT_EQ(states_.first(), 10U);
}

// One gradient there, one here.
class HalfOnDevice final : public DeviceModel {
 public:
  using DeviceModel::DeviceModel;
  std::vector<Buffer> gradients() override {
    return {DeviceModel::gradients()[0], {&on_host_, 1}, {nullptr, 0}};
  }

 private:
  float on_host_ = 0;
};

TEST_F(SessionMemory, WhatCannotBeIsSaid) {
  const auto stream = std::make_shared<LateStream>();
  DeviceModel model(stream);
  const auto refused = [&](const std::function<void(SessionOptions&)>& change, StatusCode code,
                           std::string_view text) {
    SessionOptions options = options_of({.id = "a"}, stream);
    change(options);
    EXPECT_FAILS(open(options, model, stream), code, text);
  };
  refused(
      [](SessionOptions& options) {
        options.micro_batch_shares = [] { return std::vector<uint64_t>{1}; };
      },
      StatusCode::kUnimplemented,
      "open a session as 'a': gradients in a GPU's memory, and micro_batch_shares");
  ASSERT_OK_AND_ASSIGN(const auto noise, GradientNoise::create({.gradients = model.gradients()}));
  refused([&](SessionOptions& options) { options.participants = {noise.get()}; },
          StatusCode::kUnimplemented, "such as GradientNoise");
  refused(
      [](SessionOptions& options) {
        options.shared_memory = {SharedMemory::allocate(4096).value()};
      },
      StatusCode::kInvalidArgument, "and shared_memory for them to lie in");
  refused(
      [this](SessionOptions& options) {
        options.connect = [this](const World& world, Time deadline,
                                 const std::function<Status()>&) {
          return connect_communicator(world, *store_, deadline);
        };
      },
      StatusCode::kInvalidArgument, "is a communicator that works in the host's");
  HalfOnDevice half(stream);
  EXPECT_FAILS(open(options_of({.id = "a"}, stream), half, stream), StatusCode::kInvalidArgument,
               "1 of 2 gradients lie in a GPU's memory");
}

TEST_F(SessionMemory, PartsOfAGradientAreRefusedAndTheStepGoesOn) {
  const auto stream = std::make_shared<LateStream>();
  DeviceModel model(stream);
  ASSERT_OK_AND_ASSIGN(const auto session, open(options_of({.id = "a"}, stream), model, stream));
  model.compute_half(0, 0);
  model.compute_half(0, 1);
  EXPECT_FAILS(session->add_micro_batch(2), StatusCode::kUnimplemented,
               "add them up where they lie");
  EXPECT_OK(session->end_step(2));
  EXPECT_EQ(session->step(), 1U);
}

// Those of this machine, if it has any.
TEST_F(SessionMemory, WithoutAGpuItSaysSo) {
  if (base::device_in_use().ok()) GTEST_SKIP() << "this machine has a GPU";
  testing::SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  options.communicator.backend = Backend::kNccl;
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kUnimplemented,
               "open a session as 'a': ask which GPU is in use: ");
}

}  // namespace
}  // namespace ffdl
