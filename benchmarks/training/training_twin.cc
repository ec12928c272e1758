#include "benchmarks/training/training_twin.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "benchmarks/harness/pairs.h"
#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/trainer.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/tuning/gradient_noise.h"

namespace ffdl::bench {
namespace {

constexpr uint64_t kEvery = 10;
constexpr uint64_t kShort = 2;

struct Place {
  std::string folder;
  std::string id;
  int ranks = 2;
  Shape shape;  // for a micro-batch
};

// A member of one job, named by the way it trains.
class Job {
 public:
  static Result<std::unique_ptr<Job>> open(const std::string& how, const Place& place,
                                           Store& store) {
    Shape shape = place.shape;
    if (how == "whole") shape.rows = shape.rows * kVirtualWorkers / place.ranks;
    auto job = std::make_unique<Job>(how, shape);
    SessionOptions options;
    options.self.id = place.id;
    options.membership.job = how;
    options.membership.min_workers = place.ranks;
    if (how == "with") {
      options.checkpoints.folder = place.folder + "/checkpoints";
      options.checkpoints.every_steps = kEvery;
      options.checkpoints.keep_last = 1;
    }
    if (how == "noise") {
      FFDL_ASSIGN_OR_RETURN(job->noise_, GradientNoise::create({job->model_.gradients(), kEvery}));
      options.participants = {job->noise_.get()};
    }
    if (how == "virtual") FFDL_RETURN_IF_ERROR(job->divide(options));
    FFDL_ASSIGN_OR_RETURN(job->session_, Session::open(options, job->model_, store));
    // Makes the next step the one with a checkpoint or a measurement.
    FFDL_RETURN_IF_ERROR(job->steps(kEvery - 1));
    return job;
  }
  Job(std::string how, const Shape& shape) : how_(std::move(how)), model_(shape) {}

  // Returns the seconds of a piece.
  Result<double> train() {
    const bool is_short = how_ == "virtual" || how_ == "whole";
    Status outcome;
    const double seconds = seconds_of([&] { outcome = steps(is_short ? kShort : kEvery); });
    FFDL_RETURN_IF_ERROR(std::move(outcome));
    if (how_ == "with") FFDL_RETURN_IF_ERROR(wait_for_checkpoint());
    if (noise_ && noise_->noise_scale().measurements == 0) {
      return Status(StatusCode::kInternal, "no noise was measured");
    }
    return seconds;
  }

 private:
  // One sample is a micro-batch.
  Status divide(SessionOptions& options) {
    LedgerOptions data;
    data.samples = kVirtualWorkers;
    data.partition_samples = kVirtualWorkers;
    data.epochs = 0;
    data.order = SampleOrder::kGlobal;
    data.batch_samples = kVirtualWorkers;
    FFDL_ASSIGN_OR_RETURN(ledger_, make_session_ledger(data));
    options.participants = {ledger_->participant()};
    options.micro_batch_shares = [ledger = ledger_.get()] { return ledger->shares(); };
    return {};
  }
  Status steps(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) FFDL_RETURN_IF_ERROR(step());
    return {};
  }
  Status step() {
    if (!ledger_) {
      model_.compute();
      return session_->end_step(1).status();
    }
    FFDL_RETURN_IF_ERROR(ledger_->take().status());
    for (uint64_t i = 0; i < ledger_->taken(); ++i) {
      model_.compute();
      FFDL_RETURN_IF_ERROR(session_->add_micro_batch(1));
    }
    return session_->end_step(ledger_->taken()).status();
  }
  Status wait_for_checkpoint() {
    ++checkpoints_;
    const auto done = [&] {
      const SessionStats stats = session_->stats();
      return stats.checkpoints + stats.dropped_checkpoints >= checkpoints_;
    };
    const auto never = system_runtime().make_event();
    while (!done()) never->wait_until(deadline_in(std::chrono::milliseconds(1)));
    return session_->checkpoint_status();
  }

  const std::string how_;
  DenseModel model_;
  uint64_t checkpoints_ = 0;
  std::unique_ptr<GradientNoise> noise_;
  std::unique_ptr<SampleLedger> ledger_;
  std::unique_ptr<Session> session_;
};

// Returns the processor time that the writing thread has used since it began.
double writer_cpu_seconds() {
  double seconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    uint64_t ns = 0;
    if (name == "ffdl-checkpoint") std::ifstream(task.path() / "schedstat") >> ns;
    seconds += 1e-9 * static_cast<double>(ns);
  }
  return seconds;
}

}  // namespace

Status play_training_twin(const std::vector<std::string>& arguments) {
  const Place place = {arguments[0],
                       arguments[1],
                       std::stoi(arguments[4]),
                       {std::stoi(arguments[2]), std::stoi(arguments[3])}};
  FFDL_ASSIGN_OR_RETURN(const auto store, open_store("tcp://" + place.folder, system_runtime()));
  std::map<std::string, std::unique_ptr<Job>> jobs;
  answer("ready");
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "cpu") {
      answer(std::to_string(writer_cpu_seconds()));
      continue;
    }
    auto& job = jobs[line];
    if (!job) {
      FFDL_ASSIGN_OR_RETURN(job, Job::open(line, place, *store));
    }
    FFDL_ASSIGN_OR_RETURN(const double seconds, job->train());
    answer(fmt::format("{:.9f}", seconds));
  }
  return {};
}

}  // namespace ffdl::bench
