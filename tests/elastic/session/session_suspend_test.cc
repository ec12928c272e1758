#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "elastic/sessions_on_devices.h"

namespace ffdl {
namespace {

class SessionSuspend : public testing::SessionsOnDevices {
 protected:
  // Trains two members until step 6. Each calls `meanwhile` after step 3.
  void train(const std::function<void(Session&)>& meanwhile) {
    std::vector<std::thread> threads;
    for (const std::string id : {"a", "b"}) {
      threads.push_back(start({.id = id,
                               .min_workers = 2,
                               .samples = id == "a" ? uint64_t{1} : uint64_t{2},
                               .after_step = [&](Session& session, StepResult) {
                                 if (session.step() == 3) meanwhile(session);
                                 return session.step() < 6;
                               }}));
    }
    for (std::thread& thread : threads) thread.join();
  }
};

void suspend_and_resume(Session& session) {
  EXPECT_FAILS(session.resume(), StatusCode::kInvalidArgument, "the session is not suspended");
  ASSERT_OK(session.suspend());
  EXPECT_FAILS(session.suspend(), StatusCode::kInvalidArgument, "is suspended; call resume()");
  EXPECT_FAILS(session.add_micro_batch(1), StatusCode::kInvalidArgument, "is suspended");
  EXPECT_FAILS(session.begin_average(1, 1), StatusCode::kInvalidArgument, "is suspended");
  EXPECT_FAILS(session.end_step(1), StatusCode::kInvalidArgument, "is suspended");
  EXPECT_FAILS(session.finish(), StatusCode::kInvalidArgument, "is suspended");
  ASSERT_OK(session.resume());
}

// Compares the states of all three trainings step by step.
TEST_F(SessionSuspend, AfterwardsTheTrainingIsWhatItWas) {
  train([](Session&) {});
  ASSERT_OK(begin_again(*store_, "job"));
  train(suspend_and_resume);
  EXPECT_EQ(fake_.suspended, 2);
  EXPECT_EQ(fake_.resumed, 2);
  backend_ = Backend::kDeviceShm;  // which has no memory to release
  states_.keep(0);
  ASSERT_OK(begin_again(*store_, "job"));
  train(suspend_and_resume);
  EXPECT_EQ(fake_.suspended, 2);
}

TEST_F(SessionSuspend, NotInTheMiddleOfAStep) {
  const auto stream = std::make_shared<testing::LateStream>();
  testing::DeviceModel model(stream);
  ASSERT_OK_AND_ASSIGN(const auto session, open(options_of({.id = "a"}, stream), model, stream));
  model.fill_gradient(1);
  ASSERT_OK(session->add_micro_batch(1));
  EXPECT_FAILS(session->suspend(), StatusCode::kInvalidArgument, "a step has begun; end it first");
  ASSERT_OK(session->end_step(1));
  ASSERT_OK(session->suspend());
  ASSERT_OK(session->resume());
  EXPECT_OK(session->finish());
}

// The other member learns of it in its next step, and continues alone.
TEST_F(SessionSuspend, AMemberThatDiesMeanwhileEndsNobodysSession) {
  // Named by the one that dies, before a step that both take: the other may have begun alone.
  std::atomic<uint64_t> suspend_at = 0;
  std::thread dies = start({.id = "a",
                            .min_workers = 2,
                            .dies = true,
                            .after_step = [&suspend_at](Session& session, StepResult) {
                              if (suspend_at == 0) suspend_at = session.step() + 2;
                              if (session.step() < suspend_at) return true;
                              EXPECT_OK(session.suspend());
                              return false;
                            }});
  bool has_resumed = false;
  std::thread stays =
      start({.id = "b", .after_step = [&suspend_at, &has_resumed](Session& session, StepResult) {
               if (session.step() == suspend_at && !has_resumed) {
                 EXPECT_OK(session.suspend());
                 EXPECT_OK(session.resume());
                 has_resumed = true;
               }
               return !has_resumed || session.step() < suspend_at + 3 || session.world().size() > 1;
             }});
  dies.join();
  stays.join();
  EXPECT_EQ(fake_.suspended, 2);
  EXPECT_EQ(fake_.alive, 0);
}

}  // namespace
}  // namespace ffdl
