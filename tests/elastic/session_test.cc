#include "ffdl/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "ffdl/partition_ledger.h"
#include "support/small_model.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Members are threads of this process, with a store and shared memory as processes have them.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::Scribe;
using ffdl::testing::SmallModel;

// Leases that a busy machine keeps alive.
MembershipOptions patient(int min_workers) {
  MembershipOptions options;
  options.min_workers = min_workers;
  options.heartbeat = 50ms;
  options.lease = 3s;
  options.gather = 50ms;
  return options;
}

// What a member's weights were after each step, the same at all of them.
class History {
 public:
  void note(uint64_t step, const std::vector<float>& weights) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = weights_.emplace(step, weights);
    if (is_new) return;
    EXPECT_EQ(known->second, weights) << "two states of step " << step;
  }
  std::vector<float> at(uint64_t step) {
    const std::lock_guard lock(mutex_);
    return weights_.at(step);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::vector<float>> weights_;
};

// What the ledgers of all members say is committed.
class Commits {
 public:
  static constexpr uint64_t kSamples = 200;
  static constexpr uint64_t kPartition = 10;

  Result<std::unique_ptr<PartitionLedger>> make_ledger() {
    PartitionLedgerOptions options;
    options.samples = kSamples;
    options.partition_samples = kPartition;
    options.epochs = 0;
    options.on_stable = [this](const CommittedStep& step) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(steps_.emplace(step.step, step).first->second, step);
    };
    return PartitionLedger::create(options);
  }
  void expect_each_once(uint64_t epochs) {
    std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;  // of a partition, by their begins
    for (const auto& [number, step] : steps_) {
      for (const auto& part : step.parts) {
        EXPECT_TRUE(ranges[part.range.partition].emplace(part.range.begin, part.range.end).second);
      }
    }
    EXPECT_EQ(ranges.size(), kSamples / kPartition);
    for (const auto& [partition, all] : ranges) {
      uint64_t position = 0;
      for (const auto& [begin, end] : all) {
        EXPECT_EQ(begin, position) << "partition " << partition;
        position = end;
      }
      EXPECT_GE(position, epochs * kPartition) << "partition " << partition;
    }
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, CommittedStep> steps_;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : store_(open_store("mem://", system_runtime()).value()) {}

  // What one member does; it may look at the session after each step, and ends by false.
  struct Worker {
    std::string id{};
    int min_workers = 1;
    size_t size = 1001;
    uint64_t samples = 4;
    int max_workers = 256;
    std::string takes_over_from{};
    CommunicatorFactory connect{};
    std::function<bool(Session&, StepResult)> after_step = [](Session&, StepResult) {
      return true;
    };
  };

  std::thread start(const Worker& worker) {
    return std::thread([this, worker] { outcome_[worker.id] = run(worker); });
  }
  Status run(const Worker& worker) {
    SmallModel model(worker.size);
    Scribe scribe(worker.samples);
    FFDL_ASSIGN_OR_RETURN(const auto ledger, commits_.make_ledger());
    SessionOptions options;
    options.self.id = worker.id;
    options.membership = patient(worker.min_workers);
    options.membership.max_workers = worker.max_workers;
    options.membership.takes_over_from = worker.takes_over_from;
    options.participants = {&scribe, ledger.get()};
    options.verify_state = true;
    options.shared_memory = model.shared_memory();
    options.connect = worker.connect;
    FFDL_ASSIGN_OR_RETURN(auto session, Session::open(options, model, *store_));
    while (true) {
      model.compute(session->step());
      FFDL_RETURN_IF_ERROR(ledger->take(worker.samples).status());
      FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(ledger->taken()));
      if (result != StepResult::kRetryStep) history_.note(session->step(), model.weights());
      if (result == StepResult::kLeft) return {};
      EXPECT_LE(scribe.last_applied, session->step());
      EXPECT_LT(scribe.last_stable, std::max<uint64_t>(session->step(), 1));
      sum_of_[worker.id] = scribe.sum();
      if (!worker.after_step(*session, result)) break;
    }
    return session->step() >= end_step_ ? session->finish() : Status();
  }

  bool is_candidate(const std::string& id) {
    return store_->get("ffdl/job/who/members/" + id).ok();
  }

  const std::unique_ptr<Store> store_;
  History history_;
  Commits commits_;
  uint64_t end_step_ = ~uint64_t{0};  // after which all finish
  std::map<std::string, Status> outcome_ = {{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}};
  std::map<std::string, uint64_t> sum_of_ = {{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}};
};

TEST_F(SessionTest, OneMemberTrainsAlone) {
  end_step_ = 20;
  const Status outcome = run({.id = "a", .after_step = [](Session& session, StepResult result) {
                                EXPECT_EQ(result, StepResult::kContinue);
                                return session.step() < 20;
                              }});
  EXPECT_OK(outcome);
  EXPECT_NE(history_.at(20), history_.at(19));
}

TEST_F(SessionTest, AllMembersHaveTheSameState) {
  end_step_ = 30;
  std::vector<std::thread> threads;
  for (const char* id : {"a", "b", "c"}) {
    threads.push_back(
        start({.id = id, .min_workers = 3, .after_step = [](Session& session, StepResult) {
                 EXPECT_EQ(session.world().size(), 3);
                 return session.step() < 30;
               }}));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
  EXPECT_EQ(sum_of_["a"], sum_of_["b"]);
  EXPECT_EQ(sum_of_["a"], sum_of_["c"]);
}

// Counts what an in-place all_reduce needs: the memory told, and all of it given as one buffer.
class Watched final : public Communicator {
 public:
  Watched(std::unique_ptr<Communicator> of, std::atomic<int>& in_place)
      : of_(std::move(of)), in_place_(in_place) {}

  const World& world() const override { return of_->world(); }
  Backend backend() const override { return of_->backend(); }
  Status run(const Operation& operation, Time deadline) override {
    if (operation.kind == Collective::kAllReduce && operation.out.size() == 1 && memory_ &&
        operation.out.front().data == memory_->data() &&
        operation.out.front().count * sizeof(float) == memory_->bytes()) {
      ++in_place_;
    }
    return of_->run(operation, deadline);
  }
  void abort(Status why) override { of_->abort(std::move(why)); }
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override {
    memory_ = memory;
    return of_->register_memory(memory);
  }

 private:
  const std::unique_ptr<Communicator> of_;
  std::atomic<int>& in_place_;
  std::shared_ptr<SharedMemory> memory_;
};

// In each world anew: with one member, with two, and with one again.
TEST_F(SessionTest, GradientsInSharedMemoryAreAveragedWhereTheyLie) {
  std::map<std::string, std::atomic<int>> in_place;
  const auto worker = [&](const char* id, std::function<bool(Session&, StepResult)> after_step) {
    std::atomic<int>& counted = in_place[id];
    return Worker{
        .id = id,
        .size = 100'001,  // a small one would go through slots all the same
        .connect = [this, &counted](const World& world, Time deadline,
                                    const std::function<Status()>& look)
            -> Result<std::unique_ptr<Communicator>> {
          CommunicatorOptions options;
          options.look = look;
          FFDL_ASSIGN_OR_RETURN(auto made, connect_communicator(world, *store_, deadline, options));
          return std::unique_ptr<Communicator>(std::make_unique<Watched>(std::move(made), counted));
        },
        .after_step = std::move(after_step)};
  };
  std::set<int> sizes;
  uint64_t steps = 0;
  std::thread second;
  const auto leave_soon = [](Session& session, StepResult) {
    session.ask_to_leave();
    return true;
  };
  const auto stay = [&](Session& session, StepResult) {
    if (session.step() == 3) second = start(worker("b", leave_soon));
    sizes.insert(session.world().size());
    steps = session.step();
    return sizes.size() < 2 || session.world().size() == 2;
  };
  EXPECT_OK(run(worker("a", stay)));
  second.join();
  EXPECT_OK(outcome_["b"]);
  EXPECT_GE(in_place["a"].load(), static_cast<int>(steps));
  EXPECT_GE(in_place["b"].load(), 1);
}

// Members with unequal numbers of samples, and one with none whose gradient must not count.
TEST_F(SessionTest, TheMeanIsOverSamples) {
  std::vector<std::thread> threads;
  const std::map<std::string, uint64_t> samples = {{"a", 1}, {"b", 3}, {"c", 0}};
  for (const auto& [id, count] : samples) {
    threads.emplace_back([this, id, count] {
      SmallModel model(3, static_cast<float>(count == 0 ? 1e30F : 1));
      std::vector<float> expected;
      SessionOptions options;
      options.self.id = id;
      options.membership = patient(3);
      auto opened = Session::open(options, model, *store_);
      ASSERT_OK(opened);
      const auto gradients = model.gradients();
      for (const Buffer& buffer : gradients) {
        for (uint64_t i = 0; i < buffer.count; ++i) {
          static_cast<float*>(buffer.data)[i] = count == 0 ? 1e30F : static_cast<float>(4 * count);
        }
      }
      ASSERT_OK((*opened)->end_step(count));
      for (const float value : model.gradient()) EXPECT_EQ(value, (1 * 4 + 3 * 12) / 4);
      EXPECT_OK((*opened)->finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SessionTest, AStepWithoutSamplesCountsAndChangesNoWeight) {
  SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  ASSERT_OK_AND_ASSIGN(auto session, Session::open(options, model, *store_));
  const std::vector<float> before = model.weights();
  ASSERT_OK(session->end_step(0));
  EXPECT_EQ(session->step(), 1U);
  EXPECT_EQ(model.weights(), before);
}

// A newcomer takes the state while the other trains, and leaves again in order.
TEST_F(SessionTest, AMemberComesAndLeaves) {
  std::atomic<uint64_t> joined_at = 0;
  std::atomic<bool> has_left = false;
  std::atomic<int> changes = 0;
  std::thread newcomer;
  end_step_ = 1;
  std::thread first =
      start({.id = "a", .after_step = [&](Session& session, StepResult result) {
               if (result == StepResult::kWorldChanged) ++changes;
               EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
               return !has_left || session.world().size() > 1;
             }});
  newcomer = start({.id = "b", .after_step = [&](Session& session, StepResult) {
                      if (joined_at == 0) joined_at = session.step();
                      if (session.step() > joined_at + 10) session.ask_to_leave();
                      return true;
                    }});
  newcomer.join();
  has_left = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_OK(outcome_["b"]);
  EXPECT_LE(changes, 2);
}

// The other has made its last step, and is the only one that holds the state.
TEST_F(SessionTest, WhoComesAtTheEndHasTheState) {
  end_step_ = 20;
  std::thread newcomer;
  uint64_t steps_of_newcomer = 0;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() < end_step_) return true;
                               newcomer =
                                   start({.id = "b", .after_step = [&](Session& its, StepResult) {
                                            steps_of_newcomer = its.step();
                                            return false;
                                          }});
                               while (!is_candidate("b")) std::this_thread::yield();
                               return false;
                             }});
  first.join();
  newcomer.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_OK(outcome_["b"]);
  EXPECT_GT(steps_of_newcomer, end_step_) << "it has not begun anew";
}

// The world changed in the last step: the other is at the first step that it has no samples for.
TEST_F(SessionTest, WhoComesInTheLastStepIsNotHeldUp) {
  std::atomic<uint64_t> last_step = 0;
  end_step_ = 1;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult result) {
                               last_step = session.step();
                               return result != StepResult::kWorldChanged;
                             }});
  while (last_step == 0) std::this_thread::yield();
  uint64_t steps_of_newcomer = 0;
  EXPECT_OK(run({.id = "b", .after_step = [&](Session& session, StepResult) {
                   steps_of_newcomer = session.step();
                   return false;
                 }}));
  first.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_GT(steps_of_newcomer, last_step) << "it has not begun anew";
}

// Nobody waits until a newcomer has gradients, too.
TEST_F(SessionTest, ANewcomerIsPartOfItsFirstStepBeforeItComputes) {
  std::atomic<bool> is_over = false;
  end_step_ = 1;
  std::promise<void> trains;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() == 1) {
                                 EXPECT_EQ(session.stats().steps, 1U) << "none of them in open()";
                                 trains.set_value();
                               }
                               return !is_over || session.world().size() > 1;
                             }});
  trains.get_future().wait();
  EXPECT_OK(run({.id = "b", .after_step = [&](Session& session, StepResult) {
                   if (session.stats().healed == 1 && session.stats().retried_steps == 0) {
                     EXPECT_GE(session.stats().steps, 2U) << "one of them in open()";
                   }
                   session.ask_to_leave();
                   return true;
                 }}));
  is_over = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
}

// The world has two members throughout, and changes once.
TEST_F(SessionTest, AThirdTakesOverFromTheSecond) {
  std::promise<void> trains;
  std::atomic<uint64_t> end = ~uint64_t{0};
  std::atomic<uint64_t> last_generation = 0;
  std::set<uint64_t> generations;
  end_step_ = 1;
  const Worker member = {.min_workers = 2, .max_workers = 2};
  Worker a = member, b = member, c = member;
  a.id = "a";
  a.after_step = [&](Session& session, StepResult result) {
    if (session.step() == 5) trains.set_value();
    EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
    EXPECT_EQ(session.world().size(), 2);
    generations.insert(session.world().generation);
    return session.step() < end;
  };
  b.id = "b";
  b.after_step = [&](Session& session, StepResult) {
    last_generation = session.world().generation;
    return true;
  };
  c.id = "c";
  c.takes_over_from = "b";
  c.after_step = [&](Session& session, StepResult) {
    EXPECT_EQ(session.world().generation, last_generation + 1);
    if (end == ~uint64_t{0}) end = session.step() + 100;  // the other is one step ahead at most
    return session.step() < end;
  };
  std::vector<std::thread> threads;
  threads.push_back(start(a));
  threads.push_back(start(b));
  trains.get_future().wait();
  threads.push_back(start(c));
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
  EXPECT_EQ(generations, (std::set<uint64_t>{last_generation, last_generation + 1}));
  commits_.expect_each_once(2);
}

// Nobody waits for the second, whose place the third has before there is a world.
TEST_F(SessionTest, WhoIsTakenOverFromBeforeItWasInAWorldIsToldSo) {
  end_step_ = 20;
  Worker worker = {.min_workers = 3};
  worker.after_step = [](Session& session, StepResult) { return session.step() < 20; };
  std::vector<std::thread> threads;
  for (const char* id : {"a", "b", "c", "d"}) {
    worker.id = id;
    worker.takes_over_from = worker.id == "c" ? "b" : "";
    threads.push_back(start(worker));
    while (worker.id != "d" && !store_->get("ffdl/job/who/members/" + worker.id).ok()) {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* id : {"a", "c", "d"}) EXPECT_OK(outcome_[id]);
  EXPECT_FAILS(outcome_["b"], StatusCode::kCancelled, "another member took over before");
}

// Who was to be replaced works on in the world that comes after.
TEST_F(SessionTest, WhoWouldTakeOverDiesBeforeItHas) {
  std::promise<uint64_t> trains;
  std::atomic<uint64_t> end = ~uint64_t{0};
  std::atomic<uint64_t> forming = ~uint64_t{0};
  end_step_ = 1;
  Worker a = {.id = "a", .min_workers = 2};
  a.after_step = [&](Session& session, StepResult result) {
    if (session.step() == 5) trains.set_value(session.world().generation);
    EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
    if (session.world().generation > forming && end == ~uint64_t{0}) end = session.step() + 100;
    return session.step() < end;
  };
  Worker b = {.id = "b", .min_workers = 2};
  b.after_step = [&](Session& session, StepResult result) {
    EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
    return session.step() < end;
  };
  std::thread first = start(a);
  std::thread second = start(b);
  const uint64_t generation = trains.get_future().get();
  MembershipOptions options = patient(2);
  options.takes_over_from = "b";
  auto newcomer = Membership::join(*store_, system_runtime(), {"c", 0, ""}, options);
  ASSERT_OK(newcomer);
  const auto world = (*newcomer)->wait_world_after(generation, testing::soon());
  ASSERT_OK(world);
  EXPECT_EQ(world->carriers.size(), 2U);
  forming = world->generation;
  newcomer->reset();
  ASSERT_OK(store_->end_lease(store_->get("ffdl/job/who/members/c")->lease));
  first.join();
  second.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
  commits_.expect_each_once(2);
}

// One whose session is gone is dead for the others; the last one goes on alone.
TEST_F(SessionTest, DeathsEndNobodysSession) {
  end_step_ = 90;
  std::vector<std::thread> threads;
  for (const auto& [id, until] : std::map<std::string, uint64_t>{{"a", 90}, {"b", 60}, {"c", 30}}) {
    threads.push_back(
        start({.id = id, .min_workers = 1, .after_step = [until](Session& session, StepResult) {
                 return session.step() < until;
               }}));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
}

TEST_F(SessionTest, AnotherModelIsRefusedAndTheOthersGoOn) {
  end_step_ = 1;
  std::atomic<bool> refused = false;
  std::promise<void> trains;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() == 1) trains.set_value();
                               return !refused || session.world().size() > 1;
                             }});
  trains.get_future().wait();
  const Status outcome = run({.id = "b", .size = 55});
  EXPECT_FAILS(outcome, StatusCode::kInvalidArgument, "join job 'job' as 'b'");
  refused = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
}

TEST_F(SessionTest, WhatALookSeesEndsTheSession) {
  std::atomic<int> looks = 0;
  const auto options_that_look = [&](int until) {
    SessionOptions options;
    options.self.id = "a";
    options.membership = patient(1);
    options.communicator.look = [&looks, until] {
      return ++looks < until ? Status() : Status(StatusCode::kCancelled, "it has seen enough");
    };
    return options;
  };
  SmallModel model;
  SessionOptions waits = options_that_look(3);
  waits.membership.min_workers = 2;  // who does not come
  EXPECT_FAILS(Session::open(waits, model, *store_), StatusCode::kCancelled, "seen enough");

  looks = 0;
  SessionOptions trains = options_that_look(50);
  trains.membership.job = "another";
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(trains, model, *store_));
  Status status;
  uint64_t applied = 0;
  while (status.ok()) {
    model.compute(session->step());
    status = session->end_step(1).status();
    if (status.ok()) ++applied;
  }
  EXPECT_FAILS(status, StatusCode::kCancelled, "seen enough");
  EXPECT_GT(applied, 0U);
  EXPECT_FAILS(session->end_step(1), StatusCode::kCancelled, "seen enough");
  EXPECT_FAILS(session->finish(), StatusCode::kCancelled, "seen enough");
}

TEST_F(SessionTest, WhatCannotBeIsSaid) {
  class Counter : public SmallModel {
   public:
    std::vector<Buffer> gradients() override { return {{&count_, 1, DType::kInt64}}; }

   private:
    int64_t count_ = 0;
  };
  Counter counter;
  SessionOptions options;
  options.self.id = "a";
  EXPECT_FAILS(Session::open(options, counter, *store_), StatusCode::kInvalidArgument,
               "gradients of int64 have no mean");
  SmallModel model;
  options.participants = {nullptr};
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kInvalidArgument,
               "a participant is a null pointer");
  options.participants = {};
  options.operation_timeout = 1s;
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kInvalidArgument,
               "operation_timeout must be longer");
}

}  // namespace
}  // namespace ffdl
