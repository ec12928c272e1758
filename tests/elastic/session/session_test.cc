#include "ffdl/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "ffdl/data/sample_ledger.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Runs members as threads of this process. They share a store and shared memory as processes do.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::patient;
using ffdl::testing::Scribe;
using ffdl::testing::SmallModel;

// The weights of the members after each step, which must be equal.
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

// The commits that the ledgers of all members report.
class Commits {
 public:
  static constexpr uint64_t kSamples = 200;
  static constexpr uint64_t kPartition = 10;

  Result<std::unique_ptr<SampleLedger>> make_ledger() {
    LedgerOptions options;
    options.samples = kSamples;
    options.partition_samples = kPartition;
    options.epochs = 0;
    LedgerMemberOptions member;
    member.on_stable = [this](const CommittedStep& step) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(steps_.emplace(step.step, step).first->second, step);
    };
    return make_session_ledger(options, member);
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    steps_.clear();
  }
  void expect_each_once(uint64_t epochs) {
    std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;  // ranges of a partition, by begin
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

  // The behavior of one member. after_step() may use the session, and ends the member by false.
  struct Worker {
    std::string id{};
    int min_workers = 1;
    size_t size = 1001;
    Duration lease = patient(1).lease;
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
    options.membership.lease = worker.lease;
    options.membership.takes_over_from = worker.takes_over_from;
    options.participants = {&scribe, ledger->participant()};
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

// A member that comes after the end does not train. If no process holds the state, it reports that.
TEST_F(SessionTest, AJobThatIsDoneIsNotTrainedAgain) {
  end_step_ = 5;
  const auto until_end = [](Session& session, StepResult) { return session.step() < 5; };
  EXPECT_OK(run({.id = "a", .after_step = until_end}));
  EXPECT_FAILS(run({.id = "b", .after_step = until_end}), StatusCode::kNotFound,
               "job 'job' is done at step 5");
  ASSERT_OK(begin_again(*store_, "job"));
  commits_.forget();  // in another lineage equal numbers mean other steps
  uint64_t steps = 0;
  EXPECT_OK(run({.id = "b", .after_step = [&](Session& session, StepResult) {
                   ++steps;
                   return session.step() < 5;
                 }}));
  EXPECT_EQ(steps, 5U);
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

// Counts what an in-place all_reduce needs: registered memory, and a single buffer in it.
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

// Averages in place in each world: with one member, with two, and with one again.
TEST_F(SessionTest, GradientsInSharedMemoryAreAveragedWhereTheyLie) {
  std::map<std::string, std::atomic<int>> in_place;
  const auto worker = [&](const char* id, std::function<bool(Session&, StepResult)> after_step) {
    std::atomic<int>& counted = in_place[id];
    return Worker{
        .id = id,
        .size = 100'001,  // a small one would use slots anyway
        .lease = 3s,      // the other one waits for it when this one has ended
        .connect = [this, &counted](const World& world, Time deadline, const ConnectWatch& watch)
            -> Result<std::unique_ptr<Communicator>> {
          CommunicatorOptions options;
          options.interrupt_check = watch.interrupt_check;
          options.unreached = watch.unreached;
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
    // On a busy machine the step may be done again.
    if (session.step() == 3 && !second.joinable()) second = start(worker("b", leave_soon));
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

// Trains members with unequal numbers of samples. One has none, and its gradient must not count.
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

// A newcomer receives the state while the other trains, and then leaves gracefully.
TEST_F(SessionTest, AMemberComesAndLeaves) {
  std::atomic<uint64_t> joined_at = 0;
  std::atomic<bool> has_left = false;
  std::atomic<int> changes = 0;
  std::promise<void> trains;
  std::once_flag has_begun;
  end_step_ = 1;
  std::thread first =
      start({.id = "a", .after_step = [&](Session& session, StepResult result) {
               if (result == StepResult::kWorldChanged) ++changes;
               EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
               std::call_once(has_begun, [&] { trains.set_value(); });
               return !has_left || session.world().size() > 1;
             }});
  trains.get_future().wait();
  std::thread newcomer = start({.id = "b", .after_step = [&](Session& session, StepResult) {
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

// The other member has made its last step, and alone holds the state. The newcomer makes no step:
// it finds the job done, or learns so in its first exchange.
TEST_F(SessionTest, AMemberThatComesAtTheEndHasTheState) {
  end_step_ = 20;
  std::thread newcomer;
  uint64_t steps_of_newcomer = end_step_;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() < end_step_) return true;
                               newcomer =
                                   start({.id = "b", .after_step = [&](Session& its, StepResult) {
                                            steps_of_newcomer = its.step();
                                            return false;
                                          }});
                               EXPECT_TRUE(comes_true([&] { return is_candidate("b"); }));
                               return false;
                             }});
  first.join();
  newcomer.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_OK(outcome_["b"]);
  EXPECT_GE(steps_of_newcomer, end_step_) << "it has not begun anew";
}

// The world changes in the last step. The other member is at the first step without samples.
TEST_F(SessionTest, AMemberThatComesInTheLastStepIsNotHeldUp) {
  std::atomic<uint64_t> last_step = 0;
  end_step_ = 1;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult result) {
                               last_step = session.step();
                               return result != StepResult::kWorldChanged;
                             }});
  EXPECT_TRUE(comes_true([&] { return last_step > 0; }));
  std::optional<uint64_t> steps_of_newcomer;  // none if it found the job done
  EXPECT_OK(run({.id = "b", .after_step = [&](Session& session, StepResult) {
                   steps_of_newcomer = session.step();
                   return false;
                 }}));
  first.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_GE(steps_of_newcomer.value_or(last_step), last_step) << "it has not begun anew";
}

// No member waits until a newcomer has gradients.
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

// The world has two members throughout and changes once.
TEST_F(SessionTest, AThirdTakesOverFromTheSecond) {
  std::promise<void> trains;
  std::once_flag has_begun;
  std::atomic<uint64_t> end = ~uint64_t{0};
  std::atomic<uint64_t> last_generation = 0;
  std::set<uint64_t> generations;
  end_step_ = 1;
  const Worker member = {.min_workers = 2, .max_workers = 2};
  Worker a = member, b = member, c = member;
  a.id = "a";
  a.after_step = [&](Session& session, StepResult result) {
    if (session.step() == 5) std::call_once(has_begun, [&] { trains.set_value(); });
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

// No member waits for the second one. The third takes its place before a world exists.
TEST_F(SessionTest, WhoIsTakenOverFromBeforeItWasInAWorldIsToldSo) {
  end_step_ = 20;
  Worker worker = {.min_workers = 3};
  worker.after_step = [](Session& session, StepResult) { return session.step() < 20; };
  std::vector<std::thread> threads;
  for (const char* id : {"a", "b", "c", "d"}) {
    worker.id = id;
    worker.takes_over_from = worker.id == "c" ? "b" : "";
    threads.push_back(start(worker));
    EXPECT_TRUE(comes_true([&] { return worker.id == "d" || is_candidate(worker.id); }));
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* id : {"a", "c", "d"}) EXPECT_OK(outcome_[id]);
  EXPECT_FAILS(outcome_["b"], StatusCode::kCancelled, "another member took over before");
}

// The member that was to be replaced continues in the next world.
TEST_F(SessionTest, WhoWouldTakeOverDiesBeforeItHas) {
  std::promise<uint64_t> trains;
  std::once_flag has_begun;
  std::atomic<uint64_t> end = ~uint64_t{0};
  std::atomic<uint64_t> forming = ~uint64_t{0};
  end_step_ = 1;
  Worker a = {.id = "a", .min_workers = 2};
  a.after_step = [&](Session& session, StepResult result) {
    const uint64_t present = session.world().generation;
    if (session.step() == 5) std::call_once(has_begun, [&] { trains.set_value(present); });
    EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
    if (present > forming && end == ~uint64_t{0}) end = session.step() + 100;
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
  EXPECT_EQ(world->state_holders.size(), 2U);
  forming = world->generation;
  newcomer->reset();
  ASSERT_OK(store_->end_lease(store_->get("ffdl/job/who/members/c")->lease));
  first.join();
  second.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
  commits_.expect_each_once(2);
}

// A member whose session is gone is dead for the others; the last one continues alone. No member
// dies before all have done a step together: until then one may be alone with the state.
TEST_F(SessionTest, DeathsEndNobodysSession) {
  testing::StepsTogether together(3);
  std::vector<std::thread> threads;
  for (const auto& [id, steps] : std::map<std::string, uint64_t>{{"a", 90}, {"b", 60}, {"c", 30}}) {
    threads.push_back(start({.id = id,
                             .lease = 3s,
                             .after_step = [&together, steps](Session& session, StepResult result) {
                               const bool goes_on = together.since(session, result) < steps;
                               if (!goes_on && steps == 90) EXPECT_OK(session.finish());
                               return goes_on;
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
  std::atomic<int> looks_left = 3;
  SessionOptions options;
  options.self.id = "a";
  options.membership = patient(1);
  options.communicator.interrupt_check = [&looks_left] {
    return --looks_left > 0 ? Status() : Status(StatusCode::kCancelled, "it has seen enough");
  };
  SmallModel model;
  SessionOptions waits = options;
  waits.membership.min_workers = 2;  // the second never joins
  EXPECT_FAILS(Session::open(waits, model, *store_), StatusCode::kCancelled, "seen enough");

  looks_left = std::numeric_limits<int>::max();  // on a busy machine it looks often until a step
  SessionOptions trains = options;
  trains.membership.job = "another";
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(trains, model, *store_));
  Status status;
  uint64_t applied = 0;
  while (status.ok()) {
    model.compute(session->step());
    status = session->end_step(1).status();
    if (status.ok() && ++applied == 1) looks_left = 50;
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
               "make operation_timeout longer than step_timeout");
}

}  // namespace
}  // namespace ffdl
