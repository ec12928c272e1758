#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "elastic/sessions_on_devices.h"
#include "ffdl/tuning/gradient_noise.h"
#include "support/memory_files.h"
#include "support/programs.h"
#include "support/small_model.h"

namespace ffdl {
namespace {

using testing::DeviceModel;
using testing::GuardedDevice;
using testing::LateStream;

class SessionMemory : public testing::SessionsOnDevices {
 protected:
  using SessionsOnDevices::SessionsOnDevices;
  void come_and_leave();
};

TEST_F(SessionMemory, TheMeanIsOverSamplesWhereverTheyAre) {
  std::vector<std::thread> threads;
  const std::map<std::string, uint64_t> samples = {{"a", 1}, {"b", 3}, {"c", 0}};
  for (const auto& [id, count] : samples) {
    threads.emplace_back([this, id, count] {
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

// Connects the GPUs of each next world in every available way.
class SessionWorlds : public SessionMemory,
                      public ::testing::WithParamInterface<std::pair<GpuWorlds, const char*>> {
 protected:
  SessionWorlds() : SessionMemory(GetParam().first, GetParam().second) {}
  bool grows() const { return shrinks() && library_ == std::string_view(kFakeNccl); }
  bool shrinks() const { return gpu_worlds_ == GpuWorlds::kReuse; }
};

INSTANTIATE_TEST_SUITE_P(Ways, SessionWorlds,
                         ::testing::Values(std::pair{GpuWorlds::kFresh, kFakeNccl},
                                           std::pair{GpuWorlds::kReuse, kFakeNccl},
                                           std::pair{GpuWorlds::kReuse, kFakeNcclWithoutGrow}));

// Two members train; a third joins and leaves; a fourth joins and dies.
TEST_P(SessionWorlds, MembersComeLeaveAndDie) {
  std::atomic<bool> is_over = false;
  std::atomic<bool> are_two = false;
  std::promise<void> trains;
  std::vector<std::thread> threads;
  for (const std::string id : {"a", "b"}) {
    threads.push_back(start({.id = id, .after_step = [&](Session& session, StepResult) {
                               const bool is_alone = session.world().size() == 1;
                               if (!is_alone && !are_two.exchange(true)) trains.set_value();
                               return !is_over || session.world().size() > 2;
                             }}));
  }
  trains.get_future().wait();
  std::thread leaves = start({.id = "c", .after_step = [](Session& its, StepResult) {
                                if (its.stats().steps > 3) its.ask_to_leave();
                                return true;
                              }});
  leaves.join();
  std::thread dies = start({.id = "d", .dies = true, .after_step = [](Session& its, StepResult) {
                              return its.stats().steps <= 3;
                            }});
  dies.join();
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  // The counts are for two changes each. A machine that stalls the members long enough may cause
  // others.
  EXPECT_GE(fake_.grown, 3 * grows());
  EXPECT_GE(fake_.shrunk, 2 * shrinks());
  EXPECT_EQ(fake_.grown > 0, grows());
  EXPECT_EQ(fake_.shrunk > 0, shrinks());
  EXPECT_EQ(fake_.alive, 0);
}

// Lets a newcomer receive the state while the other trains, and then leave gracefully.
void SessionMemory::come_and_leave() {
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

TEST_F(SessionMemory, AMemberComesAndLeaves) { come_and_leave(); }

TEST_F(SessionMemory, AMemberComesAndLeavesThroughTheMemoryOfGpus) {
  backend_ = Backend::kDeviceShm;
  come_and_leave();
}

// A task averages the buckets and does its own part of the scaling. No member dies before all have
// done a step together: until then one may be alone with the state and would take it with it.
TEST_P(SessionWorlds, DeathsEndNobodysSession) {
  testing::StepsTogether together(3);
  std::vector<std::thread> threads;
  for (const auto& [id, steps] : std::map<std::string, uint64_t>{{"a", 30}, {"b", 20}, {"c", 10}}) {
    threads.push_back(start({.id = id,
                             .samples = steps,
                             .begins_early = true,
                             .dies = steps < 30,
                             .after_step = [&together, steps](Session& session, StepResult result) {
                               return together.since(session, result) < steps;
                             }}));
  }
  for (std::thread& thread : threads) thread.join();
}

// Reports the failure of one sum among three that has succeeded, after another member has applied
// it.
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
  Status continue_from(Communicator* before, Time deadline) override {
    const auto* const wrapped = dynamic_cast<LostAnswer*>(before);
    return of_->continue_from(wrapped == nullptr ? before : wrapped->of_.get(), deadline);
  }

 private:
  const std::unique_ptr<Communicator> of_;
  const std::function<bool()> is_now_;
};

// The member has a state that counts, and replaces it by the other's. The end of the third member
// makes a new world at once.
TEST_F(SessionMemory, WhoIsAStepBehindIsHealed) {
  std::atomic<uint64_t> step_of_a = 0;
  std::atomic<uint64_t> step_of_b = 0;
  std::atomic<int> sums_left = 5;  // sums of b, and of c, which runs the same sums
  std::atomic<int> sums_left_of_c = 5;
  std::atomic<uint64_t> end = ~uint64_t{0};
  constexpr Duration kLease = std::chrono::seconds(3);  // the others wait for that of the third
  Worker a = {.id = "a", .lease = kLease};
  a.after_step = [&](Session& session, StepResult) {
    step_of_a = session.step();
    return session.step() < end;
  };
  Worker b = {.id = "b", .lease = kLease};
  b.wrap = [&](std::unique_ptr<Communicator> made) {
    return std::make_unique<LostAnswer>(std::move(made), [&] {
      if (--sums_left != 0) return false;
      while (step_of_a <= step_of_b) std::this_thread::yield();
      return true;
    });
  };
  b.after_step = [&](Session& session, StepResult result) {
    step_of_b = session.step();
    // The end of the third member may interrupt that very sum, if it has not returned yet.
    const bool is_behind = sums_left <= 0 || result == StepResult::kHealed;
    if (is_behind && end == ~uint64_t{0}) {
      EXPECT_EQ(result, StepResult::kHealed);
      end = session.step() + 10;  // the other is one step ahead at most
    }
    return session.step() < end;
  };
  Worker c = {.id = "c", .lease = kLease, .dies = true};
  c.wrap = [&](std::unique_ptr<Communicator> made) {
    return std::make_unique<LostAnswer>(std::move(made), [&] {
      --sums_left_of_c;
      return false;
    });
  };
  c.after_step = [&](Session& session, StepResult) {
    if (sums_left_of_c > 0) return true;
    while (step_of_a < session.step()) std::this_thread::yield();  // a does not lose that step
    return false;
  };
  std::vector<std::thread> threads;
  for (const Worker& worker : {a, b, c}) threads.push_back(start(worker));
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(end, ~uint64_t{0});
}

// Writes a checkpoint from one kind of memory, and reads it into either.
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

  store_ = open_store("mem://", system_runtime()).value();  // begins a new job
  states_.keep(10);
  run_together(3, 13, checkpoints);
  EXPECT_EQ(states_.first(), 10U);
}

// A model with one gradient in the device's memory and one in the host's.
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
  ASSERT_OK_AND_ASSIGN(const auto noise, GradientNoise::create({.gradients = model.gradients()}));
  refused([&](SessionOptions& options) { options.participants = {noise.get()}; },
          StatusCode::kInvalidArgument,
          "open a session as 'a': the gradients are in a GPU's memory, but a participant reads");
  refused(
      [](SessionOptions& options) {
        options.shared_memory = {SharedMemory::allocate(4096).value()};
      },
      StatusCode::kInvalidArgument, "and shared_memory of the host is set for them");
  refused(
      [this](SessionOptions& options) {
        options.connect = [this](const World& world, Time deadline, const ConnectWatch&) {
          return connect_communicator(world, *store_, deadline);
        };
      },
      StatusCode::kInvalidArgument, "made a communicator that uses the host's");
  HalfOnDevice half(stream);
  EXPECT_FAILS(open(options_of({.id = "a"}, stream), half, stream), StatusCode::kInvalidArgument,
               "1 of 2 gradients are in a GPU's memory");
}

// Uses the device of this machine. Runs only if the machine has no GPU.
TEST_F(SessionMemory, WithoutAGpuItSaysSo) {
  if (base::device_in_use().ok()) GTEST_SKIP() << "this machine has a GPU";
  testing::SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  options.communicator.backend = Backend::kNccl;
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kUnimplemented,
               "open a session as 'a': find the GPU in use: ");
}

}  // namespace
}  // namespace ffdl
