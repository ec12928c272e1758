// A stopped server (SIGSTOP) must not slow its learners: they add up locally and continue. The
// server runs in a child process; this process is the learner. It compares its mini-batch times
// before and during the stop.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "ffdl/ps/learner.h"
#include "support/fork_child.h"
#include "support/segment_name.h"
#include "support/slowness.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kParameters = 100'000;

pid_t start_server(const std::string& name) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  ParameterServerOptions options;
  options.name = name;
  options.parameters = kParameters;
  options.rule.learning_rate = 1;
  auto server = ParameterServer::create(options);
  if (!server.ok() || !(*server)->start().ok()) _exit(1);
  while (true) pause();
}

class StoppedServer : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = start_server(name_);
    auto attached = Learner::attach(name_.text(), deadline_in(10s));
    ASSERT_OK(attached);
    learner_ = std::move(attached).value();
  }
  void TearDown() override {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }

  // Trains for `length` and returns the time of each mini-batch, in seconds, sorted.
  std::vector<double> train_for(Duration length) {
    std::vector<double> times;
    const Time end = deadline_in(length);
    for (Time now = std::chrono::steady_clock::now(); now < end;) {
      train_one();
      const Time after = std::chrono::steady_clock::now();
      times.push_back(std::chrono::duration<double>(after - now).count());
      now = after;
    }
    std::sort(times.begin(), times.end());
    return times;
  }

  const testing::SegmentName name_;
  pid_t server_ = -1;
  std::unique_ptr<Learner> learner_;
  uint64_t sample_ = 0;

 private:
  void train_one() {
    auto gradient = learner_->gradient_slot(deadline_in(10s));
    ASSERT_OK(gradient);
    // Computes something: a mini-batch takes several passes over its gradient.
    for (int pass = 0; pass < 4; ++pass) {
      for (float& value : *gradient) value = static_cast<float>(pass);
    }
    std::fill(gradient->begin(), gradient->end(), 1.0F);
    ASSERT_OK(learner_->push(Gradient::slot(), {.begin = sample_, .end = sample_ + 1}));
    ++sample_;
  }
};

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

// A learner goes on without its server, and the server folds all of it afterwards.
TEST_F(StoppedServer, NothingOfItsLearnersIsLost) {
  train_for(100ms);
  testing::stop_process(server_);
  // Goes on until it adds up, however few mini-batches a busy machine makes in a while.
  const uint64_t before = learner_->stats().accumulated;
  const Time patience = deadline_in(60s);
  do {
    train_for(300ms);
  } while (learner_->stats().accumulated == before && deadline_in({}) < patience);
  kill(server_, SIGCONT);
  ASSERT_OK(learner_->flush(deadline_in(60s)));
  std::vector<float> weights(kParameters);
  ASSERT_OK(learner_->pull(weights));
  EXPECT_EQ(weights[0], -static_cast<float>(sample_));
  EXPECT_EQ(weights[kParameters - 1], -static_cast<float>(sample_));
  EXPECT_GT(learner_->stats().accumulated, before);
}

TEST_F(StoppedServer, ItsLearnersMiniBatchesGoOnAsBefore) {
  const double slowness = testing::measure_slowness();
  train_for(300ms);  // warm-up
  const std::vector<double> before = train_for(1s);
  testing::stop_process(server_);
  const std::vector<double> stopped = train_for(1s);
  kill(server_, SIGCONT);
  RecordProperty("median_us_before", static_cast<int>(1e6 * median(before)));
  RecordProperty("median_us_stopped", static_cast<int>(1e6 * median(stopped)));
  std::printf(
      "mini-batch: median %.0f us before, %.0f us while the server is stopped; longest %.1f and "
      "%.1f ms\n",
      1e6 * median(before), 1e6 * median(stopped), 1e3 * before.back(), 1e3 * stopped.back());
  // A learner that waited for the server would stall for ten seconds. Adding up costs one pass over
  // the gradient.
  EXPECT_LT(stopped.back(), 0.5 * slowness) << "0.5 s, times a slowness of " << slowness;
  EXPECT_LT(median(stopped), 4 * median(before) * slowness)
      << "4 times " << median(before) << " s, times a slowness of " << slowness;
}

}  // namespace
}  // namespace ffdl
