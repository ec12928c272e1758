#include "benchmarks/plan/live_worker.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <vector>

#include "ffdl/data/sample_ledger.h"
#include "ffdl/launch/environment.h"
#include "ffdl/session.h"

namespace ffdl::bench {
namespace {

constexpr size_t kFeatures = 64;

volatile sig_atomic_t asked_to_end = 0;

// A line fitted to points that are computed from their numbers.
class LinearModel final : public Trainable {
 public:
  std::vector<Buffer> state() override { return {{weights_.data(), weights_.size()}}; }
  std::vector<Buffer> gradients() override { return {{gradient_.data(), gradient_.size()}}; }
  void apply() override {
    for (size_t i = 0; i < kFeatures; ++i) weights_[i] -= 0.01F * gradient_[i];
  }
  Status begin_anew() override {
    weights_.assign(kFeatures, 0);
    return {};
  }

  void compute(const std::vector<uint64_t>& samples) {
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (const uint64_t sample : samples) {
      std::minstd_rand random(static_cast<uint32_t>(sample + 1));
      std::vector<float> x(kFeatures);
      float error = 0;
      for (size_t i = 0; i < kFeatures; ++i) {
        x[i] = static_cast<float>(random() % 1000) / 1000;
        error += x[i] * (weights_[i] - 1);
      }
      for (size_t i = 0; i < kFeatures; ++i) {
        gradient_[i] += error * x[i] / static_cast<float>(samples.size());
      }
    }
  }

 private:
  std::vector<float> weights_ = std::vector<float>(kFeatures);
  std::vector<float> gradient_ = std::vector<float>(kFeatures);
};

Status train(Session& session, SampleLedger& ledger, LinearModel& model,
             std::vector<double>& step_ms) {
  const auto never = system_runtime().make_event();
  while (!ledger.is_done()) {
    if (asked_to_end != 0) session.ask_to_leave();
    const Time begin = deadline_in({});
    FFDL_ASSIGN_OR_RETURN(const auto ranges, ledger.take());
    FFDL_ASSIGN_OR_RETURN(const auto samples, ledger.sample_indices(ranges));
    model.compute(samples);
    const std::chrono::duration<double, std::milli> busy(kLiveSampleMs *
                                                         static_cast<double>(samples.size()));
    never->wait_until(begin + std::chrono::duration_cast<Duration>(busy));
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session.end_step(ledger.taken()));
    if (result == StepResult::kLeft) return {};
    const std::chrono::duration<double, std::milli> took = deadline_in({}) - begin;
    step_ms.push_back(took.count());
  }
  return session.finish();
}

}  // namespace

Status run_live_worker(uint64_t steps, const std::string& folder) {
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  FFDL_ASSIGN_OR_RETURN(const auto job, job_environment());
  if (!job) return Status(StatusCode::kInvalidArgument, "live worker: FFDL_STORE is not set");
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(job->store_url, system_runtime()));
  FFDL_ASSIGN_OR_RETURN(const auto ledger,
                        make_session_ledger({.samples = steps * kLiveBatch,
                                             .partition_samples = steps * kLiveBatch,
                                             .order = SampleOrder::kGlobal,
                                             .batch_samples = kLiveBatch}));
  LinearModel model;
  SessionOptions options;
  options.self.id = job->worker_id;
  options.membership = membership_options(*job);
  options.membership.lease = std::chrono::seconds(2);
  options.participants = {ledger->participant()};
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, *store));
  const auto began_s = std::chrono::duration<double>(deadline_in({}).time_since_epoch()).count();
  std::vector<double> step_ms;
  FFDL_RETURN_IF_ERROR(train(*session, *ledger, model, step_ms));
  if (step_ms.empty()) return {};
  const auto middle = step_ms.begin() + static_cast<ptrdiff_t>(step_ms.size() / 2);
  std::nth_element(step_ms.begin(), middle, step_ms.end());
  std::ofstream(folder + "/" + job->job + "." + job->worker_id)
      << fmt::format("{} {}", *middle, began_s);
  return {};
}

}  // namespace ffdl::bench
