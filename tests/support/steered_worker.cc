// A worker for tests of the control of a running job. It trains in small steps through a real
// session, with a StepMetrics and a StragglerWatch that replaces.
//   steered_worker FOLDER
// Reads files of FOLDER. 'end': the job is done. 'queue': a number, which it reports as the length
// of its queue. 'slow': the id of a worker that computes every sample three times. The
// replacement's clock counts the work that was done, so that nothing depends on the machine.
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "ffdl/launch/environment.h"
#include "ffdl/session.h"
#include "ffdl/tuning/step_metrics.h"
#include "ffdl/tuning/stragglers.h"

namespace {

using namespace std::chrono_literals;
using ffdl::Duration;
using ffdl::Status;
using ffdl::Time;

constexpr uint64_t kSamples = 8;

volatile sig_atomic_t asked_to_end = 0;

// A runtime whose time is the work that was done.
class WorkClock final : public ffdl::Runtime {
 public:
  Time now() override { return Time() + worked_; }
  uint64_t random() override { return ffdl::system_runtime().random(); }
  std::unique_ptr<ffdl::Event> make_event() override { return ffdl::system_runtime().make_event(); }
  std::unique_ptr<ffdl::Task> spawn(std::string name,
                                    std::function<void(ffdl::StopToken)> body) override {
    return ffdl::system_runtime().spawn(std::move(name), std::move(body));
  }
  void work(Duration time) { worked_ += time; }

 private:
  Duration worked_{};
};

// A model of one weight that follows a constant, and a flag for the end of the job.
class Model final : public ffdl::Trainable {
 public:
  std::vector<ffdl::Buffer> state() override { return {{state_, 2}}; }
  std::vector<ffdl::Buffer> gradients() override { return {{gradient_, 2}}; }
  void apply() override {
    state_[0] += 0.1F * gradient_[0];
    if (gradient_[1] > 0) state_[1] = 1;
  }
  Status begin_anew() override {
    state_[0] = state_[1] = 0;
    return {};
  }
  void compute(bool wants_end) {
    gradient_[0] = 1 - state_[0];
    gradient_[1] = wants_end ? 1 : 0;
  }
  bool is_done() const { return state_[1] > 0; }

 private:
  float state_[2] = {};
  float gradient_[2] = {};
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return text;
}

Status train(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(const auto job, ffdl::job_environment());
  if (!job) return Status(ffdl::StatusCode::kInvalidArgument, "FFDL_STORE is not set");
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store(job->store_url, ffdl::system_runtime(),
                                                     {.secret = job->store_secret}));
  int units = 0;  // in the present step
  int rank = 0;
  const auto queue = [&] {
    const std::string length = read(folder + "/queue");
    const bool tells = rank == 0 && !length.empty();  // a single queue for all
    return tells ? std::stod(length) : std::numeric_limits<double>::quiet_NaN();
  };
  FFDL_ASSIGN_OR_RETURN(
      const auto meter,
      ffdl::StepMetrics::create(
          *store, {.job = job->job,
                   .steps = 5,
                   .metrics = {{"queue_depth", queue}, {"units", [&] { return double(units); }}}}));
  WorkClock clock;
  ffdl::StragglerOptions replacing;
  replacing.on_straggler = [](const ffdl::Straggler& slow) {
    std::printf("straggler %s in step %lu\n", slow.member.id.c_str(),
                static_cast<unsigned long>(slow.step));
    std::fflush(stdout);
  };
  FFDL_ASSIGN_OR_RETURN(const auto replacement,
                        ffdl::StragglerWatch::create_replacing(*store, job->job, replacing, clock));
  Model model;
  ffdl::SessionOptions options;
  options.self.id = job->worker_id;
  options.membership = membership_options(*job);
  options.membership.lease = 5s;  // for a busy machine
  options.participants = {meter.get(), replacement.get()};
  FFDL_ASSIGN_OR_RETURN(const auto session, ffdl::Session::open(options, model, *store));
  const auto never = ffdl::system_runtime().make_event();
  uint64_t generation = 0;
  while (!model.is_done()) {
    if (asked_to_end != 0) session->ask_to_leave();
    rank = session->world().rank;
    if (generation != session->world().generation) {
      generation = session->world().generation;
      std::printf("%d members from step %lu\n", session->world().size(),
                  static_cast<unsigned long>(session->step()));
      std::fflush(stdout);
    }
    units = read(folder + "/slow") == job->worker_id ? 3 : 1;
    for (int unit = 0; unit < units; ++unit) {
      model.compute(std::filesystem::exists(folder + "/end"));
      clock.work(1ms);
      never->wait_until(ffdl::deadline_in(1ms));  // leaves the machine to the other workers
    }
    FFDL_ASSIGN_OR_RETURN(const ffdl::StepResult result, session->end_step(kSamples));
    if (result == ffdl::StepResult::kLeft) return {};
  }
  return session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  if (argc != 2) return 2;
  const Status outcome = train(argv[1]);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "%s\n", outcome.to_string().c_str());
  return 1;
}
